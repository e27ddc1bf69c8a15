// http:// instead of https://: the port needs TLS, and answers plain HTTP with an error that says so.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { own } from '../support/own.ts'
import { answersOf, receive } from '../support/raw-connection.ts'
import { LOGIN, loggedBy, startTestService } from '../support/service.ts'
import { get, method, post } from './hostile-cases.ts'

describe('plain HTTP on the TLS port', { concurrency: true }, async () => {
  const service = await own(startTestService('sqlite'))

  async function open(): Promise<Socket> {
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1')
    await once(socket, 'connect')
    return socket
  }
  async function exchange(bytes: string | Buffer): Promise<Buffer> {
    const socket = await open()
    socket.write(bytes)
    return receive(socket)
  }

  const REQUESTS: [string, string | Buffer][] = [
    ['a GET', get(LOGIN)],
    ['a preflight', method('OPTIONS')],
    ['a DELETE', method('DELETE', '/api/v1/auth/sessions')],
    ['a CONNECT', 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n'],
    ['half a request line', 'GET /login'],
    ['a method and then noise', `POST ${'\0\x16\x03\x01'.repeat(1_000)}`],
    ['a login with a huge body', post(['Content-Length: 1000000'], 'x'.repeat(1_000_000))],
    ['two requests at once', 'GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n'],
  ]
  for (const [name, bytes] of REQUESTS) {
    test(`${name} gets one 400 in the envelope, and the connection is closed`, async () => {
      const [answer, ...others] = answersOf(await exchange(bytes))
      assert.deepEqual(others, [])
      assert.equal(answer?.status, 400)
      assert.deepEqual(JSON.parse(answer.body), {
        success: false,
        error: {
          code: 'BAD_REQUEST',
          message: 'The request could not be understood. Send valid HTTP to an https:// address.',
        },
      })
      const { headers } = answer
      assert.equal(headers.get('content-type'), 'application/json; charset=utf-8')
      assert.equal(headers.get('connection'), 'close')
      assert.match(headers.get('x-request-id') ?? '', /^[\da-f-]{36}$/)
      assert.ok(headers.has('content-security-policy'))
      // HSTS is valid over TLS only; with a redirect, callers would keep starting with plain HTTP.
      for (const name of ['strict-transport-security', 'location', 'set-cookie']) {
        assert.ok(!headers.has(name), name)
      }
    })
  }

  test('a request that arrives byte by byte is answered 400 before it is complete', async () => {
    const socket = (await open()).setNoDelay()
    const received = receive(socket)
    for (const byte of 'GET /login') socket.write(byte)
    assert.equal(answersOf(await received)[0]?.status, 400)
  })

  test('bytes that are neither HTTP nor TLS get no HTTP answer', async () => {
    for (const bytes of ['\0\0\0\0\0\0\0\0', 'SSH-2.0-OpenSSH_9.2\r\n', 'get / http/1.1\r\n\r\n']) {
      assert.doesNotMatch((await exchange(bytes)).toString('latin1'), /HTTP/)
    }
  })

  test('50 callers that reset their connections cause no log line, and the service goes on', async () => {
    const lines = await loggedBy(service, async () => {
      for (let i = 0; i < 50; i++) {
        const socket = (await open()).on('error', () => {})
        socket.write('GET / HTTP/1.1\r\n\r\n', () => socket.resetAndDestroy())
        await once(socket, 'close')
      }
      assert.equal((await service.call({ method: 'GET' })).status, 405)
    })
    assert.deepEqual(lines, [])
  })
})
