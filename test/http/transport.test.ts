// TLS, plain HTTP in its place, and requests that no client library would send.
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect as connectPlain, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls'
import { writeCertificate } from '../support/certificates.ts'
import { createDescription } from '../support/described.ts'
import { faultsIn, inParallel, own, ownFolder } from '../support/own.ts'
import { timedByTicks, until } from '../support/process.ts'
import { answersOf, createRawClient, outsideEnvelope, receive } from '../support/raw-connection.ts'
import {
  countStatuses,
  LOGIN,
  loggedBy,
  PASSWORD,
  startTestService,
  type TestService,
} from '../support/service.ts'
import { CASES, get, JSON_TYPE, method, post, sized } from './hostile-cases.ts'

/** Long enough for a time limit of the service, on a busy machine too. */
const LIMIT_MS = 15_000

const statusesOf = (answers: { status: number }[]) => answers.map(({ status }) => status)

async function shakeHands({ url }: TestService, options: ConnectionOptions): Promise<TLSSocket> {
  const port = Number(new URL(url).port)
  const socket = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options })
  await once(socket, 'secureConnect')
  return socket
}

describe('TLS 1.2 has forward secrecy and authenticated encryption only', () => {
  const ACCEPTED = ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305']
  const MODERN = ['AES_128_GCM_SHA256', 'AES_256_GCM_SHA384', 'CHACHA20_POLY1305_SHA256']
  const REFUSED = {
    ec: ['ECDHE-ECDSA-AES128-SHA', 'ECDHE-ECDSA-AES256-SHA384', 'ECDHE-ECDSA-AES128-CCM'],
    rsa: [
      ...['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'AES128-SHA', 'AES256-SHA256'],
      ...['ECDHE-RSA-AES128-SHA', 'ECDHE-RSA-AES256-SHA384', 'DHE-RSA-AES128-GCM-SHA256'],
    ],
  }
  for (const keyType of ['ec', 'rsa'] as const) {
    test(`with an ${keyType.toUpperCase()} certificate`, async () => {
      const files = await writeCertificate(await ownFolder(), keyType, { keyType })
      const service = await own(startTestService('sqlite', files))
      const negotiate = async (options: ConnectionOptions) => {
        const socket = await shakeHands(service, options)
        const { name } = socket.getCipher()
        socket.destroy()
        return name
      }
      const offer = (ciphers: string) => negotiate({ ciphers, maxVersion: 'TLSv1.2' })
      for (const suite of ACCEPTED) {
        const name = `ECDHE-${keyType === 'ec' ? 'ECDSA' : 'RSA'}-${suite}`
        assert.equal(await offer(name), name)
      }
      for (const name of REFUSED[keyType]) {
        await assert.rejects(offer(name), /alert handshake failure/, name)
      }
      for (const ciphers of MODERN.map(suite => `TLS_${suite}`)) {
        assert.equal(await negotiate({ ciphers, minVersion: 'TLSv1.3' }), ciphers)
      }
    })
  }
})

// Almost none of these requests reaches the store, so one engine is enough.
describe('connections and requests', async () => {
  const service = await own(startTestService('sqlite'))
  const ca = await readFile(join(service.dataDir, 'development-cert.pem'))
  const client = await createRawClient(service)

  async function openPlain(): Promise<Socket> {
    const socket = connectPlain(Number(new URL(service.url).port), '127.0.0.1')
    await once(socket, 'connect')
    return socket
  }
  async function exchangePlain(bytes: string | Buffer): Promise<Buffer> {
    const socket = await openPlain()
    socket.write(bytes)
    return receive(socket)
  }

  test('the keys of TLS 1.3 withstand quantum computers, if OpenSSL knows how', async () => {
    const verified = { ca, rejectUnauthorized: true }
    const socket = await shakeHands(service, { minVersion: 'TLSv1.3', ...verified })
    const [major = 0, minor = 0] = process.versions.openssl.split('.').map(Number)
    const expected = major > 3 || (major === 3 && minor >= 5) ? 'X25519MLKEM768' : 'X25519'
    assert.equal(Object(socket.getEphemeralKeyInfo()).name, expected)
    socket.destroy()
  })

  test('callers that reset their connections in plain HTTP cause no line, and in TLS no error', async () => {
    const plainLines = await loggedBy(service, async () => {
      for (let i = 0; i < 50; i++) {
        const socket = (await openPlain()).on('error', () => {})
        socket.write(get('/'), () => socket.resetAndDestroy())
        await once(socket, 'close')
      }
      assert.equal((await service.call({ method: 'GET' })).status, 405)
    })
    assert.deepEqual(plainLines, [])
    for (let i = 0; i < 20; i++) {
      const socket = await openPlain()
      const tls = connectTls({ socket, ca, servername: 'localhost' })
      tls.on('error', () => {})
      await once(tls, 'secureConnect')
      tls.write(get('/login'))
      socket.resetAndDestroy()
    }
    assert.equal((await service.call({ method: 'GET' })).status, 405)
    assert.deepEqual(faultsIn(service), [])
  })

  test('a caller that sends a body of 1 MB before it reads gets the 413', async () => {
    const socket = (await client.open()).pause()
    const write = (text: Buffer) =>
      new Promise<void>((resolve, reject) => {
        socket.write(text, error => (error ? reject(error) : resolve()))
      })
    await write(post([JSON_TYPE, 'Content-Length: 1000000']))
    // The answer has arrived, and is not read yet.
    await once(socket, 'readable')
    for (let i = 0; i < 20; i++) await write(Buffer.alloc(50_000))
    const [answer] = answersOf(await receive(socket.resume()))
    assert.equal(answer?.status, 413)
  })

  for (const version of ['TLSv1', 'TLSv1.1'] as const) {
    test(`${version} is refused by the service, not only by the caller`, async () => {
      // Without the lower security level the caller's own library would refuse to offer it.
      const ciphers = 'DEFAULT@SECLEVEL=0'
      const offered = shakeHands(service, { minVersion: version, maxVersion: version, ciphers })
      await assert.rejects(offered, { code: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' })
    })
  }

  test('a direct caller that claims 20 addresses is one client', async () => {
    const body = { email: 'claimed@example.com', password: 'wrong' }
    const answers = await inParallel(20, index => {
      const claimed = `198.51.100.${index}`
      const forwarded = { 'X-Forwarded-For': claimed, 'X-Forwarded-Proto': 'https' }
      const headers = { ...forwarded, 'X-Real-IP': claimed, Forwarded: `for=${claimed}` }
      return service.call({ body, headers })
    })
    assert.deepEqual(countStatuses(answers), { 401: 5, 429: 15 })
  })

  // http:// instead of https://: the port needs TLS, and answers plain HTTP with an error that says so.
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
    test(`${name} in plain HTTP gets one 400 in the envelope, and the connection is closed`, async () => {
      const [answer, ...others] = answersOf(await exchangePlain(bytes))
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

  test('a plain request that arrives byte by byte is answered 400 before it is complete', async () => {
    const socket = (await openPlain()).setNoDelay()
    const received = receive(socket)
    for (const byte of 'GET /login') socket.write(byte)
    assert.equal(answersOf(await received)[0]?.status, 400)
  })

  test('bytes that are neither HTTP nor TLS get no HTTP answer', async () => {
    for (const bytes of ['\0\0\0\0\0\0\0\0', 'SSH-2.0-OpenSSH_9.2\r\n', 'get / http/1.1\r\n\r\n']) {
      assert.doesNotMatch((await exchangePlain(bytes)).toString('latin1'), /HTTP/)
    }
  })

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

  test('1,100 connections without a handshake shut out neither others nor their own address', async t => {
    await service.addUser('bystander@example.com')
    const sockets = openIdle(service, 1_100)
    t.after(() => sockets.map(socket => socket.destroy()))
    const limitedLine = () => service.logged().find(({ event }) => event === 'connection.limited')
    await until(async () => limitedLine() !== undefined)
    const { level, ip, limit, result } = limitedLine() ?? {}
    assert.deepEqual([level, ip, limit, result], ['warn', '127.0.0.8', 'handshakes', 'closed'])
    for (const from of ['127.0.0.9', '127.0.0.8']) {
      const answer = await service.login('bystander@example.com', PASSWORD, from)
      assert.equal(answer.status, 200)
    }
  })

  test('a fault while a connection is accepted is logged, and the service goes on', async () => {
    const { socket } = await new Promise<{ socket: Socket & { server?: Server } }>(resolve => {
      const seen = (message: unknown) => {
        unsubscribe('net.server.socket', seen)
        resolve(message as { socket: Socket })
      }
      subscribe('net.server.socket', seen)
      openIdle(service, 1)
    })
    const lines = await loggedBy(service, async () => {
      for (let i = 0; i < 2; i++) socket.server?.emit('error', new Error('accept EPROTO'))
      assert.equal((await service.call({ method: 'GET' })).status, 405)
    })
    assert.partialDeepStrictEqual(lines, [{ level: 'error', event: 'connection.failed' }])
  })

  test('no other error was logged', () => assert.equal(faultsIn(service).length, 1))
})

/** TCP connections that never send a byte. */
function openIdle({ url }: TestService, count: number): Socket[] {
  const { port } = new URL(url)
  return Array.from({ length: count }, () => {
    const socket = connectPlain({
      host: '127.0.0.1',
      port: Number(port),
      localAddress: '127.0.0.8',
    })
    return socket.on('error', () => socket.destroy())
  })
}
