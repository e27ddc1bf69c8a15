// The ops port: names that it answers to, connections that stall, and a metric that cannot be read.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { after, before, describe, mock, test } from 'node:test'
import { freePort } from './postgres-server.ts'
import { startTestService, type TestService } from './service.ts'

/** More than the port takes at a time. */
const STALLED = 300

// Nothing here depends on the engine.
describe('the ops port', () => {
  let service: TestService
  let port: number
  before(async () => {
    port = await freePort()
    // A name of the machine itself, as an operator may give it one.
    service = await startTestService('sqlite', { OPS_HOST: 'localhost', OPS_PORT: String(port) })
  })
  after(() => service.stop())

  async function statusOf(path: string, host?: string): Promise<number> {
    const headers = host === undefined ? {} : { Host: host }
    const sent = request({ host: 'localhost', port, path, headers, agent: false }).end()
    const [answer] = await once(sent, 'response')
    answer.resume()
    return answer.statusCode
  }

  for (const [host, status] of [
    ['127.0.0.1:9443', 200],
    ['10.244.1.17', 200],
    ['[::1]:9443', 200],
    ['[fd00::17]', 200],
    ['localhost:9443', 200],
    ['LOCALHOST', 200],
    ['login', 200],
    ['login-service:9443', 200],
    ['login.default.svc:9443', 200],
    ['login.default.svc.cluster.local', 200],
    ['ops.internal:9443', 200],
    ['evil.example:9443', 403],
    ['127.0.0.1.evil.example', 403],
    ['localhost.evil.example:9443', 403],
    ['evil.example.', 403],
    ['localhost.', 403],
    ['[::1].evil.example', 403],
  ] as const) {
    test(`the host "${host}" gets ${status}`, async () => {
      assert.equal(await statusOf('/livez', host), status)
      assert.equal(await statusOf('/metrics', host), status)
    })
  }

  test('a request without a host, which no browser sends, is answered', async () => {
    const socket = connect(port, 'localhost')
    socket.end('GET /livez HTTP/1.0\r\n\r\n')
    const [chunk] = await once(socket, 'data')
    assert.match(String(chunk), /^HTTP\/1\.1 200 /)
  })

  test('half requests give way to whole ones, and are closed in the end', async () => {
    const sockets: Socket[] = []
    for (let i = 0; i < STALLED; i++) {
      const socket = connect(port, 'localhost')
      socket.on('error', () => {}).resume()
      await once(socket, 'connect')
      socket.write('GET /livez HTTP/1.1\r\nHost:')
      sockets.push(socket)
    }
    assert.equal(await statusOf('/livez'), 200)
    assert.equal(await statusOf('/readyz'), 200)
    await Promise.all(sockets.map(socket => socket.closed || once(socket, 'close')))
  })

  test('a metric that cannot be read fails the scrape, not the process', async () => {
    const read = mock.method(process, 'cpuUsage', () => {
      throw new Error('no clock')
    })
    assert.equal(await statusOf('/metrics'), 500)
    read.mock.restore()
    const line = service.logged().find(({ event }) => event === 'metrics.failed')
    assert.equal(line?.level, 'error')
    assert.equal(line?.msg, 'no clock')
    assert.equal(await statusOf('/metrics'), 200)
  })
})
