// A hostile text in any part of a request costs the service about as much CPU time as a plain request of the same
// route.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import * as net from 'node:net'
import { join } from 'node:path'
import { after, beforeEach, describe, test } from 'node:test'
import * as tls from 'node:tls'
import { startAdminService } from '../support/admin-service.ts'
import { createDescription } from '../support/described.ts'
import { own } from '../support/own.ts'
import { IS_FULL } from '../support/proof.ts'
import { startTestService, type TestService, UNLIMITED } from '../support/service.ts'
import { SESSION_COOKIE, startSessionService } from '../support/session-client.ts'
import {
  describedInputs,
  FORWARDED_INPUTS,
  formInputs,
  INPUTS,
  type Input,
} from './parser-inputs.ts'

/** A hostile request has 15 KB more to decrypt and to read than a plain one. */
const MAX_RATIO = 5
/** A plain request that takes less counts as this long, because shorter times are mostly noise. */
const FLOOR_MS = 1
const REPETITIONS = 5
/** Noise such as a garbage collection only adds time, so one measurement within the limit is enough. */
const MEASUREMENTS = 20
/** The user in the examples of both documents. */
const EMAIL = 'kate@example.com'

type Measured = {
  service: TestService
  url: string
  inputs: Input[]
  /** Before each test. Earlier ones may have deleted the user or ended the session. */
  renew?: () => Promise<unknown>
}

const CALLERS: Record<string, () => Promise<Measured>> = {
  async 'a direct caller'() {
    const env = { RETURN_TO_ORIGINS: 'https://app.example.com' }
    const service = await own(startSessionService('sqlite', { ...UNLIMITED, ...env }))
    await service.addUser(EMAIL)
    const secrets: Record<string, string> = {}
    const secretOf = (scheme: string) => secrets[scheme] ?? ''
    const renew = async () => {
      const { accessToken, cookie, csrf } = await service.browserLogin(EMAIL)
      Object.assign(secrets, { accessToken, sessionCookie: cookie, csrfToken: csrf })
    }
    await renew()
    // A second session has a form that ends it.
    await service.browserLogin(EMAIL)
    const cookieHeader = () => `${SESSION_COOKIE}=${secrets.sessionCookie}`
    const textAt = async (path: string, headers = {}) =>
      (await service.call({ method: 'GET', path, headers })).text
    const description = createDescription(await textAt('/openapi.json'))
    const pages = [
      await textAt('/login'),
      await textAt('/login/password'),
      await textAt('/login', { Cookie: cookieHeader() }),
    ]
    const fields: Record<string, string> = { email: EMAIL, known: '1' }
    const plainOf = (name: string) =>
      name === 'csrf' ? secretOf('csrfToken') : (fields[name] ?? 'seven green boats at noon')
    const inputs = [
      ...INPUTS,
      ...describedInputs(description, secretOf),
      ...formInputs(pages, plainOf, cookieHeader),
    ]
    return { service, url: service.url, inputs, renew }
  },
  async 'a caller of the admin API'() {
    const service = await own(startAdminService('sqlite'))
    const { described, adminUrl: url } = service
    const inputs = describedInputs(described, () => service.write)
    return { service, url, inputs, renew: () => service.addUser(EMAIL) }
  },
  async 'a caller behind a proxy'() {
    const env = { TRUST_PROXY: '127.0.0.1/32, 10.0.0.0/8' }
    const service = await own(startTestService('sqlite', { ...UNLIMITED, ...env }))
    return { service, url: service.url, inputs: FORWARDED_INPUTS }
  },
}

for (const [caller, start] of Object.entries(CALLERS)) {
  describe(`the CPU time that ${caller} can take`, async () => {
    const { service, url, inputs, renew = async () => {} } = await start()
    const { port, protocol } = new URL(url)
    const certificateFile = join(service.dataDir, 'development-cert.pem')
    const certificate = protocol === 'https:' ? await readFile(certificateFile) : null
    const connection = openConnection(Number(port), certificate)
    beforeEach(renew)
    after(connection.close)

    /** The time of client and service together, which share this process. */
    async function cpuMsOf(request: Buffer): Promise<number> {
      const start = process.cpuUsage()
      const status = await connection.send(request)
      const { user, system } = process.cpuUsage(start)
      assert.ok(status >= 200, `answered ${status}`)
      return (user + system) / 1_000
    }

    async function medianCpuMsOf(request: Buffer): Promise<number> {
      const times: number[] = []
      for (let i = 0; i < REPETITIONS; i++) times.push(await cpuMsOf(request))
      return times.toSorted((a, b) => a - b)[Math.floor(REPETITIONS / 2)] ?? 0
    }

    for (const { name, plain, pieces, hostile } of IS_FULL ? inputs : firstOfEach(inputs)) {
      test(`is that of a plain request, whatever is in ${name}`, async () => {
        await cpuMsOf(plain())
        let plainMs = await medianCpuMsOf(plain())
        for (const piece of pieces) {
          const request = hostile(piece)
          let ms = await cpuMsOf(request)
          const isWithin = () => ms <= MAX_RATIO * Math.max(plainMs, FLOOR_MS)
          for (let i = 1; i < MEASUREMENTS && !isWithin(); i++) {
            plainMs = await medianCpuMsOf(plain())
            ms = await cpuMsOf(request)
          }
          assert.ok(isWithin(), `${JSON.stringify(piece)}: ${ms} ms, plain ${plainMs} ms`)
        }
      })
    }
  })
}

/** All operations read their headers, and the ids in their paths, in the same way: one of them stands for the others. */
function firstOfEach(inputs: Input[]): Input[] {
  return inputs.filter(input => {
    const [part] = /.* in the (header|path) of /.exec(input.name) ?? []
    return !part || inputs.find(({ name }) => name.startsWith(part)) === input
  })
}

/** One kept connection that needs little CPU time of its own. `send` returns the status. */
function openConnection(port: number, certificate: Buffer | null) {
  const place = { port, host: '127.0.0.1' }
  const secured = { ...place, ca: certificate ?? [], servername: 'localhost' }
  const open = () => (certificate ? tls.connect(secured) : net.connect(place))
  let socket: net.Socket = open()

  /** Null if the service closed the connection before it answered. */
  function exchange(request: Buffer): Promise<number | null> {
    return new Promise(resolve => {
      let received = ''
      socket.removeAllListeners('data')
      socket.once('close', () => resolve(null)).once('error', () => resolve(null))
      socket.on('data', chunk => {
        received += chunk.toString('latin1')
        const headLength = received.indexOf('\r\n\r\n')
        const length = Number(/\r\ncontent-length: (\d+)/i.exec(received)?.[1] ?? 0)
        if (headLength < 0 || received.length < headLength + 4 + length) return
        socket.removeAllListeners('close').removeAllListeners('error')
        if (/\r\nconnection: close/i.test(received)) socket.destroy()
        resolve(Number(received.slice(9, 12)))
      })
      socket.write(request)
    })
  }

  return {
    async send(request: Buffer): Promise<number> {
      if (socket.destroyed) socket = open()
      const status = await exchange(request)
      if (status !== null) return status
      socket = open()
      return (await exchange(request)) ?? 0
    },
    close: () => socket.destroy(),
  }
}
