// Requests that no client library would send: the bytes, and the status and code of the answer.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { timedByTicks, until } from '../support/process.ts'
import {
  answersOf,
  createRawClient,
  outsideEnvelope,
  type RawAnswer,
  type RawClient,
  receive,
} from '../support/raw-connection.ts'
import { LOGIN, PASSWORD, startTestService, type TestService } from '../support/service.ts'
import { CASES, get, HOST, JSON_TYPE, lines, method, post, sized } from './hostile-cases.ts'

// Almost none of these requests reaches the store, so one engine is enough.
describe('hostile requests', () => {
  let service: TestService
  let client: RawClient
  before(async () => {
    service = await startTestService('sqlite')
    client = await createRawClient(service)
  })
  after(() => service.stop())

  /** Keeps the client's side open, as clients do, until the service closes the connection. */
  async function exchange(bytes: string | Buffer): Promise<RawAnswer[]> {
    const socket = await client.open()
    socket.write(bytes)
    return answersOf(await receive(socket))
  }

  for (const [name, bytes, status, code] of CASES) {
    test(`${name}: ${status} ${code}`, async () => {
      const answers = await client.send(bytes)
      assert.equal(answers.length, 1)
      const [answer] = answers
      assert.ok(answer)
      assert.equal(answer.status, status)
      if (bytes.toString('latin1').startsWith('HEAD')) return
      assert.equal(outsideEnvelope(answer), null)
      assert.equal(JSON.parse(answer.body).error.code, code)
    })
  }

  test('after ambiguous framing the connection is closed, and later bytes are not read', async () => {
    const smuggled = get('/smuggled')
    for (const first of [
      post(['Content-Length: 0', 'Transfer-Encoding: chunked', JSON_TYPE], '0\r\n\r\n'),
      post(['Content-Length: 2', 'Content-Length: 3', JSON_TYPE], '{}'),
      Buffer.from(lines(`GET ${LOGIN} HTTP/1.1`, HOST, 'Host: evil.example')),
      sized('{}', JSON_TYPE, 'Content-Type: text/plain'),
    ]) {
      const answers = await client.send(Buffer.concat([first, Buffer.from(smuggled)]))
      assert.deepEqual(
        answers.map(({ status }) => status),
        [400],
      )
      assert.equal(answers[0]?.headers.get('connection'), 'close')
    }
  })

  test('pipelined requests are answered in their order', async () => {
    const answers = await exchange(
      get('/a') + method('GET') + get('/.well-known/jwks.json', 'Connection: close'),
    )
    assert.deepEqual(
      answers.map(({ status }) => status),
      [404, 405, 200],
    )
  })

  // At the same time: each waits for a time limit of the service.
  describe('time limits', { concurrency: true }, () => {
    test('a connection that stalls before, in or after the headers gets an answer and is closed', async () => {
      const stalled = [
        ['nothing at all', '', 408],
        ['half the headers', `POST ${LOGIN} HTTP/1.1\r\nHost: localhost\r\n`, 408],
        ['half the body', post(['Content-Length: 20', JSON_TYPE], '{}'), 408],
        ['a whole request, then nothing', get('/a'), 404],
      ] as const
      await Promise.all(
        stalled.map(async ([name, bytes, status]) => {
          const { value: answers, ms } = await timedByTicks(exchange(bytes))
          assert.ok(ms < 15_000, name)
          assert.deepEqual(
            answers.map(answer => answer.status),
            [status],
            name,
          )
          assert.equal(answers[0] && outsideEnvelope(answers[0]), null, name)
        }),
      )
    })

    test('a connection without a TLS handshake is closed within 15 s', async () => {
      const [socket] = await openIdle(service, 1)
      assert.ok(socket)
      const { ms } = await timedByTicks(once(socket.resume(), 'close'))
      assert.ok(ms < 15_000)
    })

    test('a connection that sends a body byte by byte is closed within 15 s', async () => {
      const socket = await client.open()
      socket.write(post(['Content-Length: 10000', JSON_TYPE]))
      const trickle = setInterval(() => socket.write(' '), 200)
      const { value: received, ms } = await timedByTicks(receive(socket))
      clearInterval(trickle)
      assert.ok(ms < 15_000)
      assert.deepEqual(
        answersOf(received).map(({ status }) => status),
        [408],
      )
    })
  })

  test('1,000 idle connections from one address leave others unaffected', async t => {
    await service.addUser('bystander@example.com')
    const sockets = openIdle(service, 1_000)
    t.after(() => {
      for (const socket of sockets) socket.destroy()
    })
    await Promise.all(
      sockets.map(socket => Promise.race([once(socket, 'connect'), once(socket, 'close')])),
    )
    await until(async () => sockets.filter(socket => !socket.destroyed).length <= 256)
    const answer = await service.login('bystander@example.com', PASSWORD, '127.0.0.9')
    assert.equal(answer.status, 200)
  })

  test('no error was logged', () => {
    const errors = service.logged().filter(({ level }) => level === 'error' || level === 'fatal')
    assert.deepEqual(errors, [])
  })
})

/** TCP connections that never send a byte. */
function openIdle({ url }: TestService, count: number): Socket[] {
  const { port } = new URL(url)
  return Array.from({ length: count }, () => {
    const socket = connect({ host: '127.0.0.1', port: Number(port), localAddress: '127.0.0.8' })
    return socket.on('error', () => socket.destroy())
  })
}
