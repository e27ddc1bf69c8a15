// The whole service in the process of a test: real TLS, a real database, a clock that the test sets.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import http, { type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http'
import https from 'node:https'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import bcrypt from 'bcrypt'
import type { JWK } from 'jose'
import { loadConfig } from '../../src/config/config.ts'
import type { Store } from '../../src/domain/store.ts'
import { createLog } from '../../src/log/log.ts'
import { canonicalEmail } from '../../src/login/credentials.ts'
import { serve } from '../../src/service/serve.ts'
import { openServiceStore } from '../../src/storage/open-store.ts'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { changeAt } from '../storage/fixtures.ts'
import { copyDevelopmentCertificate } from './certificates.ts'
import { createDescription, type Description } from './described.ts'
import { createMigratedDatabase, openPatientStore, type TestDatabase } from './engines.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

export const LOGIN = '/api/v1/auth/login'
/** The issuer of all instances, before and after a restart; without it, it would contain the port. */
export const ISSUER = 'https://login.example.com'
export const PASSWORD = 'correct horse battery staple'
/** Cheap enough for thousands of logins in a test. */
export const TEST_COST = 4
/** With the threads that a real service has. They take a good part of a start, so only some suites have them. */
export const WITH_THREADS = { PASSWORD_ENGINE: 'lanes' }
/** Budgets that no test uses up, for tests that are not about the throttle. */
export const UNLIMITED = {
  THROTTLE_PAIR_FAILURES: '1000000000',
  THROTTLE_EMAIL_FAILURES: '1000000000',
  THROTTLE_CLIENT_FAILURES: '1000000000',
  THROTTLE_NETWORK_FAILURES: '1000000000',
}

export type Answer = {
  status: number
  headers: IncomingHttpHeaders
  text: string
  json: Body
}

/** All parts that an answer may have. A test that reads a missing part fails. */
export type Body = {
  success: boolean
  data: {
    user: { id: string; email: string; name: string; role: string; createdAt: string }
    accessToken: string
    refreshToken: string
    expiresIn: number
    session: SessionObject
    sessions: SessionObject[]
    next?: string
    location: string
    recoveryCodes?: string[]
    challenge?: string
    rpId?: string
    factors: {
      id: string
      kind: string
      name: string | null
      createdAt: string
      lastUsedAt: string | null
    }[]
    recoveryCodesLeft: number
  }
  error: {
    code: string
    message: string
    fields?: string[]
    reason?: string
    retryAfter?: number
  }
  keys: JWK[]
}

export type SessionObject = {
  id: string
  createdAt: string
  lastUsedAt: string
  expiresAt: string
  userAgent: string
  ip: string
  current: boolean
  amr: string[]
  lastLogin?: {
    at: string
    ip: string
    userAgent: string
    failuresSince: number
    guessesSince: number
  } | null
}

export type Call = {
  method?: string
  path?: string
  headers?: OutgoingHttpHeaders
  /** An object is sent as JSON, any other value unchanged. */
  body?: unknown
  /** The loopback address of the caller, which identifies the client. */
  from?: string
}

/** Of `PASSWORD`: a hash of one's own would take most of the time of a new user. */
const passwordHash = await bcrypt.hash(PASSWORD, TEST_COST)
/** The API's description, which is the same for every service. */
let description: Description | null = null

type NewUser = { passwordHash?: string; name?: string }

export type TestService = Awaited<ReturnType<typeof startTestService>>

/**
 * If `other` is given: a second instance on the same database and keys, which must be stopped first.
 * `server`: a PostgreSQL server other than that of the test command. `wrap`: what the service sees of its store.
 */
export async function startTestService(
  engine: EngineName,
  env: Record<string, string> = {},
  other: { database: TestDatabase; dataDir: string } | null = null,
  server?: string,
  wrap = (store: Store) => store,
) {
  const database = other?.database ?? (await createMigratedDatabase(engine, server))
  const dataDir = other?.dataDir ?? (await makeTemporaryFolder('login-service-'))
  if (!other) await copyDevelopmentCertificate(dataDir, env)
  const fullEnv: Record<string, string> = {
    NODE_ENV: 'test',
    PORT: '0',
    OPS_PORT: '0',
    JWT_ISSUER: ISSUER,
    DATA_DIR: dataDir,
    BCRYPT_COST: String(TEST_COST),
    // On a busy machine, too, attempts are verified and not shed.
    LOGIN_TIME_MS: '5000',
    DRAIN_DELAY_MS: '0',
    ...(process.env.TEST_THREADS ? WITH_THREADS : { PASSWORD_ENGINE: 'native' }),
    ...env,
  }
  let offsetMs = 0
  let stoppedMs: number | null = null
  const now = () => new Date((stoppedMs ?? Date.now()) + offsetMs)
  const lines: string[] = []
  /** The lines that a test has asked for already. */
  const parsed: Record<string, unknown>[] = []
  const config = { ...loadConfig(fullEnv), database: database.config }
  const log = createLog(
    config.logLevel,
    { write: (line: string) => lines.push(line) },
    config.logIp,
  )
  const hasThreads = config.passwordEngine === 'lanes'
  // PostgreSQL needs no thread.
  const isThreaded = hasThreads && database.config.engine === 'sqlite'
  const open = isThreaded ? openServiceStore : openPatientStore
  const service = await serve(config, log, now, async (...opening) => {
    const opened = await open(...opening)
    if (engine === 'sqlite') return wrap(opened)
    // The clock of the database moves by some milliseconds beside this one, also while a test has stopped it.
    const maintenance = { ...opened.maintenance, readClock: async () => null }
    return wrap({ ...opened, maintenance })
  })
  const store = await openPatientStore(database.config)
  const client = await createClient(service.url, dataDir, config.tls?.certFile)
  // Behind a proxy it could not be fetched.
  if (config.trustProxy.length === 0 && !description) {
    // On a connection of its own, which no test sees.
    const { call, close } = await createClient(service.url, dataDir, config.tls?.certFile)
    description = createDescription((await call({ method: 'GET', path: '/openapi.json' })).text)
    close()
  }
  let users = 0
  let isStopped = false

  /** Fails if the answer is not as the OpenAPI document describes it. */
  async function call(request: Call): Promise<Answer> {
    const answer = await client.call(request)
    description?.check(request.method ?? 'POST', request.path ?? LOGIN, answer)
    return answer
  }

  async function addUser(
    email: string,
    { passwordHash: hash = passwordHash, name = 'Test User' }: NewUser = {},
  ): Promise<string> {
    const id = randomUUID()
    const user = { id, email: canonicalEmail(email), passwordHash: hash, name, role: 'user' }
    await store.users.insert(user, changeAt(now()))
    return id
  }

  return {
    url: service.url,
    store,
    database,
    dataDir,
    env: fullEnv,
    /** All lines logged until now. */
    logged() {
      for (const line of lines.slice(parsed.length)) parsed.push(JSON.parse(line))
      return [...parsed]
    },
    logText: () => lines.join(''),
    advance: (ms: number) => {
      offsetMs += ms
    },
    /** From now on until the given test ends, only `advance` moves the clock. */
    stopClock(owner: { after: (end: () => void) => void }) {
      stoppedMs = Date.now()
      owner.after(() => {
        stoppedMs = null
      })
    },
    now,
    call,
    login: (email: unknown, password: unknown, from?: string) =>
      call({ body: { email, password }, ...(from ? { from } : {}) }),
    addUser,
    /** Adds a user with an email that no other test uses; returns the email. */
    async newUser() {
      const email = `new-user${++users}@example.com`
      await addUser(email)
      return email
    },
    async stop() {
      if (isStopped) return
      isStopped = true
      client.close()
      await service.stop('test')
      await store.close()
      if (other) return
      await database.drop()
      await rm(dataDir, { recursive: true })
    },
  }
}

/** Trusts only the given certificate, by default the development certificate. */
export async function createClient(
  url: string,
  dataDir: string,
  certFile = join(dataDir, 'development-cert.pem'),
) {
  const { request, agent } = url.startsWith('https:')
    ? {
        request: https.request,
        agent: new https.Agent({
          keepAlive: true,
          // One for all connections: by default each one parses the certificate again.
          secureContext: createSecureContext({ ca: await readFile(certFile) }),
        }),
      }
    : { request: http.request, agent: new http.Agent({ keepAlive: true }) }
  /** The agent resumes sessions of the same address only. A whole handshake takes twice as long. */
  let session: Buffer | undefined
  return {
    close: () => agent.destroy(),
    call: function send(given: Call, repeats = 3): Promise<Answer> {
      const { method = 'POST', path = LOGIN, headers = {}, body, from } = given
      const isJson = typeof body === 'object' && !Buffer.isBuffer(body)
      const payload = isJson ? JSON.stringify(body) : body
      return new Promise((resolve, reject) => {
        const outgoing = request(
          new URL(path, url),
          {
            method,
            agent,
            ...(from && { localAddress: from, session }),
            headers: { ...(isJson && { 'Content-Type': 'application/json' }), ...headers },
          },
          async incoming => {
            const chunks: Buffer[] = []
            for await (const chunk of incoming) chunks.push(chunk)
            const text = Buffer.concat(chunks).toString()
            const isParsable = incoming.headers['content-type']?.startsWith('application/json')
            resolve({
              status: incoming.statusCode ?? 0,
              headers: incoming.headers,
              text,
              json: isParsable && text !== '' ? JSON.parse(text) : {},
            })
          },
        )
        let hasConnected = false
        outgoing.once('socket', socket => {
          if (outgoing.reusedSocket) return
          socket.once(agent instanceof https.Agent ? 'secureConnect' : 'connect', () => {
            hasConnected = true
          })
          socket.once('session', ticket => {
            session = ticket
          })
        })
        outgoing.once('error', (error: NodeJS.ErrnoException) => {
          // The service has closed the idle connection in the moment in which it was used again, or a handshake
          // that took longer than 5 s, on a busy machine. In both cases nothing was sent.
          const isUnsent = error.code === 'ECONNRESET' && !hasConnected
          if (isUnsent && repeats > 0) resolve(send(given, repeats - 1))
          else reject(error)
        })
        outgoing.end(payload)
      })
    },
  }
}

/** Returns a new loopback address at each call, so that each request comes from another client. */
export function createAddresses(): () => string {
  let calls = 0
  return () => `127.9.${Math.floor(++calls / 250)}.${(calls % 250) + 1}`
}

/** The number of answers per status. */
export function countStatuses(answers: { status: number }[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

/** The lines that the service logged during the action. How often earlier lines were repeated is not one of them. */
export async function loggedBy(service: TestService, action: () => Promise<unknown>) {
  const before = service.logged().length
  await action()
  const lines = service.logged().slice(before)
  return lines.filter(line => !('count' in line) || 'requestId' in line)
}

/** The lines logged during the action, without the fields that every line of a request has. */
export async function refusedLines(service: TestService, action: () => Promise<unknown>) {
  const lines = await loggedBy(service, action)
  return lines.map(({ time: _, requestId, ip, userAgent, ...line }) => {
    assert.match(String(requestId), /^[\da-f-]{36}$/)
    assert.match(String(ip), /^127\./)
    assert.equal(userAgent, '')
    return line
  })
}
