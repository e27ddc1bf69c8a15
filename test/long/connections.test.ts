// A few addresses cannot use up all connections of the service. Opens more real sockets than its limit.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { createDeployment, type ServiceProcess } from '../process.ts'
import { PASSWORD } from '../service.ts'

/** 17 addresses with 256 connections each exceed the limit of 4,096. */
const ADDRESSES = 17
const PER_ADDRESS = 256
const EMAIL = 'kate@example.com'
const REQUEST = 'GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n'

/** Opens connections, sends these bytes on each, and keeps it open unless the service closes it. */
async function hold({ url }: ServiceProcess, bytes: string): Promise<Socket[]> {
  const { hostname, port } = new URL(url)
  const sockets: Socket[] = []
  for (let address = 0; address < ADDRESSES; address++) {
    const opening = Array.from({ length: PER_ADDRESS }, async () => {
      const localAddress = `127.0.7.${address + 1}`
      const socket = connect({ host: hostname, port: Number(port), localAddress })
      socket.on('error', () => {})
      sockets.push(socket)
      await Promise.race([once(socket, 'connect'), once(socket, 'close')])
      if (bytes === '' || socket.destroyed) return
      socket.write(bytes)
      await Promise.race([once(socket, 'data'), once(socket, 'close')])
    })
    await Promise.all(opening)
  }
  return sockets
}

const WAYS: [
  what: string,
  env: Record<string, string>,
  bytes: string,
  caller: { from: string; headers: Record<string, string> },
][] = [
  ['unfinished TLS handshakes', {}, '', { from: '127.0.8.1', headers: {} }],
  [
    'idle connections',
    { TRUST_PROXY: '127.0.8.1' },
    REQUEST,
    {
      from: '127.0.8.1',
      headers: { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': '203.0.113.9' },
    },
  ],
]
for (const [what, env, bytes, caller] of WAYS) {
  test(`17 addresses that open 4,352 ${what} do not keep another client from logging in`, async context => {
    const deployment = await createDeployment('sqlite', env)
    context.after(() => deployment.remove())
    await deployment.addUser(EMAIL)
    const service = await deployment.start()
    const login = () => service.call({ body: { email: EMAIL, password: PASSWORD }, ...caller })

    assert.equal((await login()).status, 200)
    const sockets = await hold(service, bytes)
    const open = sockets.filter(socket => !socket.destroyed).length
    // The first login may reuse a connection; the 20 at once need new ones.
    assert.equal((await login()).status, 200)
    const answers = await Promise.all(Array.from({ length: 20 }, login))
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200])
    context.diagnostic(`${open} of ${sockets.length} were open`)
    for (const socket of sockets) socket.destroy()
  })
}
