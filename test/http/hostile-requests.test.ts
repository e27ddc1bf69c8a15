// Requests that no client library would send: the bytes, and the status and code of the answer.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { createDescription } from '../support/described.ts'
import { faultsIn, own } from '../support/own.ts'
import { timedByTicks, until } from '../support/process.ts'
import { answersOf, createRawClient, outsideEnvelope, receive } from '../support/raw-connection.ts'
import { LOGIN, PASSWORD, startTestService, type TestService } from '../support/service.ts'
import { CASES, get, JSON_TYPE, method, post, sized } from './hostile-cases.ts'

/** Long enough for a time limit of the service, on a busy machine too. */
const LIMIT_MS = 15_000

const statusesOf = (answers: { status: number }[]) => answers.map(({ status }) => status)

// Almost none of these requests reaches the store, so one engine is enough.
describe('hostile requests', async () => {
  const service = await own(startTestService('sqlite'))
  const client = await createRawClient(service)
  const document = await service.call({ method: 'GET', path: '/openapi.json' })
  const description = createDescription(document.text)

  for (const [name, bytes, status, code] of CASES) {
    test(`${name}: ${status} ${code}`, async () => {
      const [answer, ...others] = await client.send(bytes)
      assert.deepEqual(others, [])
      assert.equal(answer?.status, status)
      const [method = '', path = ''] = bytes.toString('latin1').split(' ')
      const { headers, body: text } = answer
      description.check(method, path, { status, headers: Object.fromEntries(headers), text })
      if (method === 'HEAD') return
      assert.equal(outsideEnvelope(answer), null)
      assert.equal(JSON.parse(text).error.code, code)
    })
  }

  test('after ambiguous framing the connection is closed, and later bytes are not read', async () => {
    for (const first of [
      post(['Content-Length: 0', 'Transfer-Encoding: chunked', JSON_TYPE], '0\r\n\r\n'),
      post(['Content-Length: 2', 'Content-Length: 3', JSON_TYPE], '{}'),
      Buffer.from(get(LOGIN, 'Host: evil.example')),
      sized('{}', JSON_TYPE, 'Content-Type: text/plain'),
    ]) {
      const answers = await client.send(Buffer.concat([first, Buffer.from(get('/smuggled'))]))
      assert.deepEqual(statusesOf(answers), [400])
      assert.equal(answers[0]?.headers.get('connection'), 'close')
    }
  })

  test('pipelined requests are answered in their order', async () => {
    const jwks = get('/.well-known/jwks.json', 'Connection: close')
    const answers = await client.exchange(get('/a') + method('GET') + jwks)
    assert.deepEqual(statusesOf(answers), [404, 405, 200])
  })

  // At the same time: each waits for a time limit of the service.
  describe('time limits', { concurrency: true }, () => {
    const STALLED: [name: string, bytes: string | Buffer, status: number][] = [
      ['before the headers', '', 408],
      ['in the headers', `POST ${LOGIN} HTTP/1.1\r\nHost: localhost\r\n`, 408],
      ['in the body', post(['Content-Length: 20', JSON_TYPE], '{}'), 408],
      ['after a request', get('/a'), 404],
    ]
    for (const [name, bytes, status] of STALLED) {
      test(`a connection that stalls ${name} gets an answer and is closed`, async () => {
        const { value: answers, ms } = await timedByTicks(client.exchange(bytes))
        assert.ok(ms < LIMIT_MS)
        assert.deepEqual(statusesOf(answers), [status])
        assert.equal(answers[0] && outsideEnvelope(answers[0]), null)
      })
    }

    test('a connection without a TLS handshake is closed within 15 s', async () => {
      const closings = openIdle(service, 1).map(socket => once(socket.resume(), 'close'))
      const { ms } = await timedByTicks(Promise.all(closings))
      assert.ok(ms < LIMIT_MS)
    })

    test('a connection that sends a body byte by byte is closed within 15 s', async () => {
      const socket = await client.open()
      socket.write(post(['Content-Length: 10000', JSON_TYPE]))
      const trickle = setInterval(() => socket.write(' '), 200)
      const { value: received, ms } = await timedByTicks(receive(socket))
      clearInterval(trickle)
      assert.ok(ms < LIMIT_MS)
      assert.deepEqual(statusesOf(answersOf(received)), [408])
    })
  })

  test('1,000 idle connections from one address leave others unaffected', async t => {
    await service.addUser('bystander@example.com')
    const sockets = openIdle(service, 1_000)
    t.after(() => sockets.map(socket => socket.destroy()))
    const opening = sockets.map(it => Promise.race([once(it, 'connect'), once(it, 'close')]))
    const isLimited = async () => sockets.filter(socket => !socket.destroyed).length <= 256
    const { ms } = await timedByTicks(Promise.all(opening).then(() => until(isLimited)))
    assert.ok(ms < 5_000, 'then handshakes time out')
    const answer = await service.login('bystander@example.com', PASSWORD, '127.0.0.9')
    assert.equal(answer.status, 200)
  })

  test('no error was logged', () => assert.deepEqual(faultsIn(service), []))
})

/** TCP connections that never send a byte. */
function openIdle({ url }: TestService, count: number): Socket[] {
  const { port } = new URL(url)
  return Array.from({ length: count }, () => {
    const socket = connect({ host: '127.0.0.1', port: Number(port), localAddress: '127.0.0.8' })
    return socket.on('error', () => socket.destroy())
  })
}
