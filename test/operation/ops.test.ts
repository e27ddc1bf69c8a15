// The ops port: connections that stall, and a metric that cannot be read.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import { describe, mock, test } from 'node:test'
import { inParallel, own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { startTestService } from '../support/service.ts'

/** More than the port takes at a time. */
const STALLED = 300

// Nothing here depends on the engine.
describe('the ops port', async () => {
  const port = await freePort()
  // A name of the machine itself, as an operator may give it one.
  const env = { OPS_HOST: 'localhost', OPS_PORT: String(port) }
  const service = await own(startTestService('sqlite', env))

  async function statusOf(path: string): Promise<number> {
    const sent = request({ host: 'localhost', port, path, agent: false }).end()
    const [answer] = await once(sent, 'response')
    answer.resume()
    return answer.statusCode
  }

  test('half requests give way to whole ones, and are closed in the end', async () => {
    const sockets = await inParallel(STALLED, async () => {
      const socket = connect(port, 'localhost')
      socket.on('error', () => {}).resume()
      await once(socket, 'connect')
      socket.write('GET /livez HTTP/1.1\r\nHost:')
      return socket
    })
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
