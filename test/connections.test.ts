// A few addresses cannot hold all connections of the service: real sockets, as many as it takes.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { createDeployment, type ServiceProcess } from './process.ts'
import { PASSWORD } from './service.ts'

/** 17 addresses with 256 connections each: more than the 4,096 that there are. */
const ADDRESSES = 17
const PER_ADDRESS = 256
const EMAIL = 'kate@example.com'
const REQUEST = 'GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n'

/** Connections that stay open after these bytes, if the service lets them. */
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
  ['handshakes that do not finish', {}, '', { from: '127.0.8.1', headers: {} }],
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
  test(`17 addresses that open 4,352 ${what} keep nobody else from logging in`, async context => {
    const deployment = await createDeployment('sqlite', env)
    context.after(() => deployment.remove())
    await deployment.addUser(EMAIL)
    const service = await deployment.start()
    const login = () => service.call({ body: { email: EMAIL, password: PASSWORD }, ...caller })

    assert.equal((await login()).status, 200)
    const sockets = await hold(service, bytes)
    const open = sockets.filter(socket => !socket.destroyed).length
    // Over a connection that is still there, and over new ones.
    assert.equal((await login()).status, 200)
    const answers = await Promise.all(Array.from({ length: 20 }, login))
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200])
    context.diagnostic(`${open} of ${sockets.length} were open`)
    for (const socket of sockets) socket.destroy()
  })
}
