// Provokes the events that a service in this process can log, and returns the lines.
import { hash } from 'node:crypto'
import { rename } from 'node:fs/promises'
import { mock } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import bcrypt from 'bcrypt'
import { createAdminToken } from '../src/identifiers.ts'
import { createLog } from '../src/log/log.ts'
import { startAdminService } from './admin-service.ts'
import { createFullDisk } from './full-disk.ts'
import { isHashJob } from './hash-counter.ts'
import { whileThreadsDie } from './lost-thread.ts'
import { keepSessions } from './many-sessions.ts'
import { freePort } from './postgres-server.ts'
import { until } from './process.ts'
import { createAddresses, PASSWORD, startTestService, WITH_THREADS } from './service.ts'
import { AUTH, cookieIn, SESSION_COOKIE } from './session-client.ts'

const EMAIL = 'kate@example.com'
const NEW = 'kim@example.com'
const CALLBACK = 'https://app.example.net/logged-in'
const VERIFIER = 'v'.repeat(43)
const BROWSER = { 'Sec-Fetch-Site': 'same-origin' }
const PURGE_EVERY_MS = 60_000
const REFRESHES_PER_MINUTE = 60
const ALARM_FAILURES = 100

export async function provokeByRequests(): Promise<Record<string, unknown>[]> {
  // One after the other, because the first one replaces functions of this process.
  return [
    ...(await requests()),
    ...(await behindProxy()),
    ...(await limit()),
    ...(await lostLines()),
  ]
}

/** What requests to a service and to its admin API log, also while parts of it fail. */
async function requests() {
  await using cleanup = new AsyncDisposableStack()
  const timers = mock.method(globalThis, 'setInterval')
  const opsPort = await freePort()
  const service = await startAdminService('sqlite', {
    ...WITH_THREADS,
    OPS_PORT: String(opsPort),
    THROTTLE_PAIR_FAILURES: '1000',
    THROTTLE_EMAIL_FAILURES: String(ALARM_FAILURES + 1),
    THROTTLE_CLIENT_FAILURES: '1000',
    CORS_ORIGINS: 'https://app.example.com',
    CODE_CALLBACKS: CALLBACK,
  })
  cleanup.defer(service.stop)
  const purge = timers.mock.calls.find(({ arguments: [, ms] }) => ms === PURGE_EVERY_MS)
  timers.mock.restore()
  const { database, call, login, admin } = service
  const newAddress = createAddresses()
  const seen = (event: string) =>
    until(async () => service.logged().some(line => line.event === event))
  await service.addUser(EMAIL)

  // A refresh token that is used again, and one that is invalid.
  const { refreshToken } = (await login(EMAIL, PASSWORD)).json.data
  const refresh = (token: string, from = newAddress()) =>
    call({ path: `${AUTH}/refresh`, body: { refreshToken: token }, from })
  const successor = (await refresh(refreshToken)).json.data.refreshToken
  await refresh(successor)
  await refresh(refreshToken)
  await refresh('not a token')

  // A refresh that its caller repeats, and then another caller.
  const copied = (await login(EMAIL, PASSWORD)).json.data.refreshToken
  const owner = newAddress()
  for (const from of [owner, owner, newAddress()]) await refresh(copied, from)

  // A code that is redeemed twice, a cookie that is used too often and without its CSRF token, a page of another origin, a malformed login.
  const browser = await call({ body: { email: EMAIL, password: PASSWORD }, headers: BROWSER })
  const own = {
    ...BROWSER,
    Cookie: `${SESSION_COOKIE}=${cookieIn(browser, SESSION_COOKIE)}`,
    'X-CSRF-Token': String(browser.headers['x-csrf-token']),
  }
  const challenge = hash('sha256', VERIFIER, 'base64url')
  const issue = { returnTo: CALLBACK, challenge }
  const issued = await call({ path: `${AUTH}/code/issue`, headers: own, body: issue })
  const code = new URL(issued.json.data.location).searchParams.get('code')
  for (let i = 0; i < 2; i++) {
    await call({ path: `${AUTH}/code`, body: { code, verifier: VERIFIER } })
  }
  // The code counts as one of them.
  for (let i = 0; i < REFRESHES_PER_MINUTE; i++) {
    await call({ path: `${AUTH}/refresh`, headers: own })
  }
  await call({ path: `${AUTH}/logout`, headers: { ...own, 'X-CSRF-Token': 'wrong' } })
  await call({ headers: { Origin: 'https://evil.example' }, method: 'GET', path: '/login' })
  await call({ body: { email: EMAIL } })

  // A temporary password, which is replaced.
  const { json } = await admin('POST', '/users', { email: NEW, name: 'Kim', generate: true })
  const { password } = Object(json).data
  await login(NEW, password)
  const change = { email: NEW, currentPassword: password, newPassword: PASSWORD }
  await call({ path: `${AUTH}/password`, body: { ...change, newPassword: NEW } })
  await call({ path: `${AUTH}/password`, body: change })

  // Guesses, until they are counted.
  for (let i = 0; i <= ALARM_FAILURES + 3; i++) await login(EMAIL, 'wrong')
  await until(async () => service.logged().some(({ count }) => count !== undefined))

  // Changes that are done and refused; callers without access, at last because the tokens cannot be read.
  await admin('POST', '/users', { email: 'ann@example.com', name: 'Ann', password: PASSWORD })
  await admin('DELETE', '/users/none@example.com')
  await admin('POST', '/users', {})
  await admin('GET', '/users', undefined, { token: null })
  await admin('POST', '/users', {}, { token: service.read })
  const expired = createAdminToken()
  await service.setTokens({
    registration: { token: service.write, role: 'write' },
    reporting: { token: expired, role: 'read', expiresAt: service.now() },
  })
  await admin('GET', '/users', undefined, { token: expired })
  await rename(service.tokensFile, `${service.tokensFile}.aside`)
  await admin('GET', '/users')

  // A database that refuses a new hash, then one without a table, and threads that die.
  const outdated = await bcrypt.hash(PASSWORD, 5)
  await service.addUser('old@example.com', { passwordHash: outdated })
  await database.rows(`create trigger no_hash before update of password_hash on users
    begin select raise(abort, 'no new hash'); end`)
  await login('old@example.com', PASSWORD)
  await seen('login.rehash_failed')

  await database.rows('alter table sessions rename to gone')
  await login('old@example.com', PASSWORD, newAddress())
  purge?.arguments[0]()
  await seen('purge.failed')
  await database.rows('alter table gone rename to sessions')

  for (const [isMeant, event] of [
    [isHashJob, 'hashing.thread_lost'],
    [(message: object) => !isHashJob(message), 'database.connection_lost'],
  ] as const) {
    await whileThreadsDie(isMeant, () => login('lost@example.com', PASSWORD))
    await seen(event)
  }

  const broken = mock.method(process, 'cpuUsage', () => {
    throw new Error('not available')
  })
  await fetch(`http://127.0.0.1:${opsPort}/metrics`)
  broken.mock.restore()
  return service.logged()
}

/** A proxy that does not say where requests come from. */
async function behindProxy() {
  await using cleanup = new AsyncDisposableStack()
  const service = await startTestService('sqlite', { TRUST_PROXY: '127.0.0.1' })
  cleanup.defer(service.stop)
  await service.call({ headers: { 'X-Forwarded-Proto': 'http' } })
  await service.call({ headers: { 'X-Forwarded-Proto': 'https' } })
  return service.logged()
}

/** More sessions than a user may have, which PostgreSQL does not end. */
async function limit() {
  await using cleanup = new AsyncDisposableStack()
  const service = await startTestService('postgres', { MAX_SESSIONS_PER_USER: '1' })
  cleanup.defer(service.stop)
  await service.addUser(EMAIL)
  await keepSessions(service.database)
  for (let i = 0; i < 2; i++) await service.login(EMAIL, PASSWORD)
  return service.logged()
}

/** A log that cannot be written for a while, as on a full disk. */
async function lostLines() {
  const { output, written, makeRoom } = createFullDisk()
  const log = createLog('info', output)
  log.info({ event: 'service.stopped' })
  await setImmediate()
  makeRoom()
  log.info({ event: 'service.stopped' })
  for (let turn = 0; turn < 3; turn++) await setImmediate()
  return written.map(line => JSON.parse(line))
}
