// A few addresses cannot use up all connections of the service. Opens as many real sockets as its limit, or more.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { inParallel, own } from '../support/own.ts'
import { createDeployment, type ServiceProcess, timedByTicks } from '../support/process.ts'
import { PASSWORD } from '../support/service.ts'

/** 17 addresses with 256 connections each exceed the limit of 4,096. */
const ADDRESSES = 17
const PER_ADDRESS = 256
const EMAIL = 'kate@example.com'

type Attack = (service: ServiceProcess) => Promise<{ open: string; end: () => unknown }>

/** Opens connections without a TLS handshake, which stay open unless the service closes them. */
const holdSilent: Attack = async ({ url }) => {
  const { hostname: host, port } = new URL(url)
  const sockets: Socket[] = []
  for (let address = 1; address <= ADDRESSES; address++) {
    await inParallel(PER_ADDRESS, async () => {
      const socket = connect({ host, port: Number(port), localAddress: `127.0.7.${address}` })
      socket.on('error', () => {})
      sockets.push(socket)
      await Promise.race([once(socket, 'connect'), once(socket, 'close')])
    })
  }
  const open = `${sockets.filter(socket => !socket.destroyed).length} of ${sockets.length}`
  return { open, end: () => sockets.map(socket => socket.destroy()) }
}

const FORWARDED = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': '203.0.113.9' }

/** Opens 256 connections of each of 16 addresses, and asks for more than it reads. The system counts those that are open. */
const UNREAD = `
import resource, socket, sys
from concurrent.futures import ThreadPoolExecutor
port = int(sys.argv[1])
request = 'GET /openapi.json HTTP/1.1\\r\\nHost: localhost\\r\\nX-Forwarded-Proto: https\\r\\nX-Forwarded-For: 203.0.113.9\\r\\n\\r\\n'
resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)
def hold(i):
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    one.bind((f'127.0.7.{i // 256 + 1}', 0))
    one.connect(('127.0.0.1', port))
    one.sendall(request.encode() * 2)
    return one
with ThreadPoolExecutor(16) as pool: others = list(pool.map(hold, range(4096)))
rows = [row.split() for row in open('/proc/net/tcp')]
count = sum(row[1].endswith(f':{port:04X}') and row[3] == '01' for row in rows)
print(f'{count} of 4096', flush=True)
sys.stdin.read()
`

/** Small buffers, which Node cannot set, spare the memory of the system. */
const holdUnread: Attack = async ({ url }) => {
  const client = spawn('python3', ['-c', UNREAD, new URL(url).port], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [open] = await Promise.race([once(client.stdout, 'data'), once(client, 'exit')])
  assert.match(String(open), /of 4096/)
  return { open: String(open).trim(), end: () => client.stdin.end() }
}

const DIRECT = { from: '127.0.8.1', headers: {} }
const PROXIED = { from: '127.0.8.1', headers: FORWARDED }

type Way = [what: string, env: Record<string, string>, Attack, caller: typeof DIRECT]
const PROXIES = { TRUST_PROXY: '127.0.7.0/24, 127.0.8.1' }

const WAYS: Way[] = [
  ['17 addresses with 4,352 unfinished TLS handshakes', {}, holdSilent, DIRECT],
  ['4,096 connections of a proxy that are not read', PROXIES, holdUnread, PROXIED],
]
// src/http/connection/connections.test.ts has all causes, with low limits.
for (const [what, env, attack, caller] of WAYS) {
  test(`${what} do not keep another client from logging in within 20 s`, async context => {
    const deployment = await own(createDeployment('sqlite', env))
    await deployment.addUser(EMAIL)
    const service = await deployment.start()
    const login = () => service.call({ body: { email: EMAIL, password: PASSWORD }, ...caller })

    assert.equal((await login()).status, 200)
    const { open, end } = await attack(service)
    context.after(end)
    // The first login may reuse a connection; the 20 at once need new ones.
    const first = await timedByTicks(login())
    const others = await timedByTicks(inParallel(20, login))
    const statuses = [first.value, ...others.value].map(({ status }) => status)
    assert.deepEqual([...new Set(statuses)], [200])
    assert.ok(first.ms < 20_000 && others.ms < 20_000)
    context.diagnostic(`${open} were open; a login took ${first.ms} ms, 20 took ${others.ms} ms`)
  })
}
