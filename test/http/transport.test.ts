import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect as connectPlain } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls'
import { writeCertificate } from '../support/certificates.ts'
import { answersOf, createRawClient, receive } from '../support/raw-connection.ts'
import {
  countStatuses,
  LOGIN,
  loggedBy,
  startTestService,
  type TestService,
} from '../support/service.ts'
import { JSON_TYPE, post } from './hostile-cases.ts'

describe('TLS 1.2 has forward secrecy and authenticated encryption only', () => {
  const KINDS = { ec: 'ECDSA', rsa: 'RSA' } as const
  const ACCEPTED = ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305']
  const REFUSED = {
    ec: ['ECDHE-ECDSA-AES128-SHA', 'ECDHE-ECDSA-AES256-SHA384', 'ECDHE-ECDSA-AES128-CCM'],
    rsa: [
      ...['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'AES128-SHA', 'AES256-SHA256'],
      ...['ECDHE-RSA-AES128-SHA', 'ECDHE-RSA-AES256-SHA384', 'DHE-RSA-AES128-GCM-SHA256'],
    ],
  }
  for (const keyType of ['ec', 'rsa'] as const) {
    test(`with an ${keyType.toUpperCase()} certificate`, async t => {
      const folder = await mkdtemp(join(tmpdir(), 'login-ciphers-'))
      const files = await writeCertificate(folder, keyType, { keyType })
      const service = await startTestService('sqlite', files)
      t.after(async () => {
        await service.stop()
        await rm(folder, { recursive: true })
      })
      const negotiate = async (options: ConnectionOptions) => {
        const port = Number(new URL(service.url).port)
        const socket = connectTls({ port, rejectUnauthorized: false, ...options })
        await once(socket, 'secureConnect')
        const { name } = socket.getCipher()
        socket.destroy()
        return name
      }
      const offer = (ciphers: string) => negotiate({ ciphers, maxVersion: 'TLSv1.2' })
      for (const suite of ACCEPTED) {
        const name = `ECDHE-${KINDS[keyType]}-${suite}`
        assert.equal(await offer(name), name)
      }
      for (const name of REFUSED[keyType]) {
        await assert.rejects(offer(name), /alert handshake failure/, name)
      }
      const modern = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384']
      for (const ciphers of [...modern, 'TLS_CHACHA20_POLY1305_SHA256']) {
        assert.equal(await negotiate({ ciphers, minVersion: 'TLSv1.3' }), ciphers)
      }
    })
  }
})

describe('TLS', () => {
  let service: TestService
  let ca: Buffer
  before(async () => {
    service = await startTestService('sqlite')
    ca = await readFile(join(service.dataDir, 'development-cert.pem'))
  })
  after(() => service.stop())

  async function shakeHands(options: ConnectionOptions): Promise<TLSSocket> {
    const { port } = new URL(service.url)
    const socket = connectTls({ host: '127.0.0.1', port: Number(port), ca, ...options })
    await once(socket, 'secureConnect')
    return socket
  }

  test('the keys of TLS 1.3 withstand quantum computers, if OpenSSL knows how', async () => {
    const socket = await shakeHands({ minVersion: 'TLSv1.3' })
    const [major = 0, minor = 0] = process.versions.openssl.split('.').map(Number)
    const isExpected = major > 3 || (major === 3 && minor >= 5)
    assert.equal(
      Object(socket.getEphemeralKeyInfo()).name,
      isExpected ? 'X25519MLKEM768' : 'X25519',
    )
    socket.destroy()
  })

  test('callers that reset their connections cause no error line', async () => {
    const { port } = new URL(service.url)
    const lines = await loggedBy(service, async () => {
      for (let i = 0; i < 20; i++) {
        const socket = connectPlain(Number(port), '127.0.0.1')
        const tls = connectTls({ socket, ca, servername: 'localhost' })
        tls.on('error', () => {})
        await once(tls, 'secureConnect')
        tls.write(`GET ${LOGIN} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
        socket.resetAndDestroy()
      }
      assert.equal((await service.call({ method: 'GET' })).status, 405)
    })
    assert.deepEqual(
      lines.filter(({ level }) => level === 'error'),
      [],
    )
  })

  for (const bytes of [17_000, 1_000_000]) {
    test(`a caller that sends a body of ${bytes} bytes before it reads gets the 413`, async () => {
      const socket = (await (await createRawClient(service)).open()).pause()
      const write = (text: Buffer) =>
        new Promise<void>((resolve, reject) => {
          socket.write(text, error => (error ? reject(error) : resolve()))
        })
      await write(post([JSON_TYPE, `Content-Length: ${bytes}`]))
      // The answer has arrived, and is not read yet.
      await once(socket, 'readable')
      for (let i = 0; i < 20; i++) await write(Buffer.alloc(bytes / 20))
      const [answer] = answersOf(await receive(socket.resume()))
      assert.equal(answer?.status, 413)
    })
  }

  for (const version of ['TLSv1', 'TLSv1.1'] as const) {
    test(`${version} is refused by the service, not only by the caller`, async () => {
      // Without the lower security level the caller's own library would refuse to offer it.
      const ciphers = 'DEFAULT@SECLEVEL=0'
      await assert.rejects(shakeHands({ minVersion: version, maxVersion: version, ciphers }), {
        code: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
      })
    })
  }

  const rotating = (index: number) => ({
    'X-Forwarded-For': `198.51.100.${index}`,
    'X-Forwarded-Proto': 'https',
    'X-Real-IP': `198.51.100.${index}`,
    Forwarded: `for=198.51.100.${index};proto=https`,
  })

  test('a direct caller that claims 50 addresses is one client', async () => {
    const lines = await loggedBy(service, async () => {
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          service.call({
            body: { email: 'claimed@example.com', password: 'wrong' },
            headers: rotating(index),
          }),
        ),
      )
      assert.deepEqual(countStatuses(answers), { 401: 5, 429: 45 })
    })
    assert.deepEqual([...new Set(lines.map(line => line.ip))], ['127.0.0.1'])
  })
})
