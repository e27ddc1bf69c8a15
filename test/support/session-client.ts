// Clients of the session endpoints, and a check that no issued secret is in the log or the database.
import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { after } from 'node:test'
import { decodeJwt, decodeProtectedHeader, SignJWT } from 'jose'
import type { Store } from '../../src/domain/store.ts'
import { parseSecret, toBase32 } from '../../src/login/totp.ts'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import {
  type Answer,
  type Call,
  loggedBy,
  PASSWORD,
  startTestService,
  type TestService,
} from './service.ts'
import { storedText } from './stored-text.ts'

export const AUTH = '/api/v1/auth'
export const SESSION_COOKIE = '__Host-session'
export const DEVICE_COOKIE = '__Host-device'
export const SECOND_MS = 1_000
export const MINUTE_MS = 60_000
export const DAY_MS = 24 * 3_600_000
/** Every token, code and cookie is a part of one of these. */
const WORDS = /[\w.-]{20,}/g
const SECRET = new RegExp(`^${WORDS.source}$`)

export const REJECTED =
  '{"success":false,"error":{"code":"INVALID_CREDENTIALS","message":"Invalid email or password"}}'
export const INVALID_TOKEN =
  '{"success":false,"error":{"code":"INVALID_TOKEN","message":"The session has ended. Please log in again."}}'
export const NO_CREDENTIAL =
  '{"success":false,"error":{"code":"INVALID_TOKEN","message":"The request has no credential that this operation accepts. Please log in."}}'
export const CSRF_FAILED =
  '{"success":false,"error":{"code":"CSRF_FAILED","message":"The request could not be verified as your own: its origin or its X-CSRF-Token is missing or not accepted"}}'

export type Login = ReturnType<typeof loginIn>

export type SessionService = Awaited<ReturnType<typeof startSessionService>>

/** With `newAddress`, each call comes from another client, so that its refusal is logged, not counted. */
export async function startSessionService(
  engine: EngineName,
  env: Record<string, string> = {},
  newAddress: (() => string) | null = null,
  wrap?: (store: Store) => Store,
) {
  const service = await startTestService(engine, env, null, undefined, wrap)
  const secrets = new Set<string>()

  async function call(request: Call): Promise<Answer> {
    const answer = await service.call({ ...(newAddress && { from: newAddress() }), ...request })
    for (const secret of [...secretsIn(answer), ...secretsOf(request)]) secrets.add(secret)
    return answer
  }

  const opened = async (request: Call) => loginIn(await call(request))

  return {
    ...service,
    call,
    login: (email: unknown, password: unknown, from?: string) =>
      call({ body: { email, password }, ...(from && { from }) }),
    /** Moves the clock to this moment. */
    advanceTo: (moment: number) => service.advance(moment - service.now().getTime()),
    refresh: (refreshToken: unknown, from?: string) =>
      call({ path: `${AUTH}/refresh`, body: { refreshToken }, ...(from && { from }) }),
    logout: (refreshToken: unknown) => call({ path: `${AUTH}/logout`, body: { refreshToken } }),
    get: (path: string, headers: OutgoingHttpHeaders) =>
      call({ method: 'GET', path: `${AUTH}${path}`, headers }),
    delete: (path: string, headers: OutgoingHttpHeaders) =>
      call({ method: 'DELETE', path: `${AUTH}${path}`, headers }),
    /** Logs in like a browser, which gets cookies. */
    browserLogin: (
      email: string,
      { password = PASSWORD, headers, ...rest }: Call & { password?: string } = {},
    ) =>
      opened({
        ...rest,
        headers: { 'Sec-Fetch-Site': 'same-origin', ...headers },
        body: { email, password },
      }),
    /** Logs in like a program, which gets no cookies. */
    programLogin: (email: string) => opened({ body: { email, password: PASSWORD } }),
    /** Fails if a secret of any answer or set-up so far is in the log or in the database. */
    async assertSecretsKept() {
      assert.ok(secrets.size > 0)
      const places = { log: service.logText(), database: await storedText(service.database) }
      assert.match(places.database, /@example/)
      for (const [place, text] of Object.entries(places)) {
        // The write-ahead log of SQLite repeats its pages, so that the distinct words are a small part of the text.
        const words = [...new Set(text.match(WORDS))].join(' ')
        for (const secret of secrets) {
          assert.match(secret, SECRET)
          assert.ok(!words.includes(secret), `a secret in the ${place}`)
        }
      }
    },
  }
}

/** What an answer with tokens has. Without cookies, they are empty. */
export function loginIn(answer: Answer) {
  assert.equal(answer.status, 200, answer.text)
  const { user, accessToken, refreshToken } = answer.json.data
  return {
    answer,
    userId: user.id,
    sessionId: String(decodeJwt(accessToken).sid),
    accessToken,
    refreshToken,
    cookie: cookieIn(answer, SESSION_COOKIE),
    device: cookieIn(answer, DEVICE_COOKIE),
    csrf: String(answer.headers['x-csrf-token'] ?? ''),
  }
}

/** Stopped after the calling suite, which fails if a secret of an answer is in the log or the database. */
export async function ownSessions(...parameters: Parameters<typeof startSessionService>) {
  const service = await startSessionService(...parameters)
  after(() => service.assertSecretsKept().finally(service.stop))
  return service
}

export function bearer(accessToken: string): OutgoingHttpHeaders {
  return { Authorization: `Bearer ${accessToken}` }
}

export function cookie(value: string, name = SESSION_COOKIE): OutgoingHttpHeaders {
  return { Cookie: `${name}=${value}` }
}

/** The headers that a page of this site sends with a change. */
export function ownChange({ cookie: value, csrf }: Pick<Login, 'cookie' | 'csrf'>) {
  return { ...cookie(value), 'X-CSRF-Token': csrf, 'Sec-Fetch-Site': 'same-origin' }
}

/** The value of a cookie that an answer sets; empty if it sets none. */
export function cookieIn({ headers }: Answer, name: string): string {
  const line = headers['set-cookie']?.find(candidate => candidate.startsWith(`${name}=`))
  return line?.slice(name.length + 1).split(';')[0] ?? ''
}

/** Every token and code, and the last part of a token alone: without its signature it is useless. */
function secretsIn({ headers, text, json }: Answer): string[] {
  const { accessToken, refreshToken, recoveryCodes = [] } = json.data ?? {}
  const code = /[?;]code=([\w-]+)/.exec(text)?.[1]
  // The count of departures is no secret.
  const cookies = (headers['set-cookie'] ?? []).map(line => /^[^=]+=([^;]{20,})/.exec(line)?.[1])
  return [accessToken, refreshToken, code, headers['x-csrf-token'], ...cookies]
    .filter(secret => typeof secret === 'string' && secret !== '')
    .flatMap(secret => [String(secret), String(secret).split('.').at(-1) ?? ''])
    .concat(recoveryCodes.flatMap(code => [code, code.replaceAll('-', '')]))
}

/** The secret of a second factor that the call sets up, in every form in which it could be stored. */
function secretsOf({ body }: Call): string[] {
  const { secret } = Object(body)
  const bytes = typeof secret === 'string' ? parseSecret(secret) : null
  return bytes
    ? [toBase32(bytes), ...(['hex', 'base64url'] as const).map(form => bytes.toString(form))]
    : []
}

/** The token with changes to its header and claims, signed with this key. */
export function resigned(
  token: string,
  key: Parameters<SignJWT['sign']>[0],
  header: object,
  claims: object = {},
) {
  const { alg = '', ...others } = decodeProtectedHeader(token)
  return new SignJWT({ ...decodeJwt(token), ...claims })
    .setProtectedHeader({ alg, ...others, ...header })
    .sign(key)
}

/** The reason, session and user of each end that the action logs. */
export async function endedBy(service: TestService, action: () => Promise<unknown>) {
  const lines = await loggedBy(service, action)
  return lines
    .filter(({ event }) => event === 'session.ended')
    .map(({ reason, sessionId, userId }) => [reason, sessionId, userId])
}
