// Logins and refreshes without an end, as from many users, and what became of them.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { decodeJwt } from 'jose'
import type { TestDatabase } from '../../support/engines.ts'
import { timed } from '../../support/process.ts'
import { type Answer, type Call, countStatuses, PASSWORD } from '../../support/service.ts'

const REFRESH = '/api/v1/auth/refresh'
const REFUSED = 401
/** How long a client pauses before its next request. A session may be refreshed 60 times in a minute. */
const PAUSES_MS = { login: 20, refresh: 1_100 }

/** Status 0: the connection ended without an answer. */
type Failure = { status: number; ms: number; endedAt: number }

/** Per email, one client logs in again and again, and `sessionsEach` clients refresh a session each. */
export function startLoad(
  call: (call: Call) => Promise<Answer>,
  emails: string[],
  sessionsEach: number,
) {
  /** The ids of all refresh tokens that an answer contained. */
  const acknowledged: string[] = []
  const failures: Failure[] = []
  /** When each login and refresh was answered with 200. */
  const answeredAt: number[] = []
  let isStopped = false

  /** Returns the new refresh token; after a failure the previous one, and null if it is not accepted. */
  async function send(request: Call, previous: string | null = null): Promise<string | null> {
    const { value, ms } = await timed(call(request).catch(() => null))
    const endedAt = performance.now()
    if (value?.status !== 200) {
      const status = value?.status ?? 0
      failures.push({ status, ms, endedAt })
      return status === REFUSED ? null : previous
    }
    answeredAt.push(endedAt)
    const { refreshToken } = value.json.data
    acknowledged.push(String(decodeJwt(refreshToken).jti))
    return refreshToken
  }
  const logIn = (email: string) => send({ body: { email, password: PASSWORD } })

  async function keepSession(email: string): Promise<void> {
    let token: string | null = null
    // A refresh and its repetitions have one id: the balancer may hide the address of the caller.
    let id = randomUUID()
    // The last refresh begins after the stop, so that the session is known to have lived until then.
    for (let isLast = false; !isLast; ) {
      isLast = isStopped
      await setTimeout(PAUSES_MS.refresh)
      const headers = { 'X-Request-ID': id }
      const next: string | null = token
        ? await send({ path: REFRESH, headers, body: { refreshToken: token } }, token)
        : await logIn(email)
      if (next !== token) id = randomUUID()
      token = next
    }
  }
  async function keepLoggingIn(email: string): Promise<void> {
    while (!isStopped) {
      await setTimeout(PAUSES_MS.login)
      await logIn(email)
    }
  }
  const clients = emails.flatMap(email => [
    keepLoggingIn(email),
    ...Array.from({ length: sessionsEach }, () => keepSession(email)),
  ])
  return {
    failures,
    answeredAt,
    async stop(): Promise<void> {
      isStopped = true
      await Promise.all(clients)
    },
    /** The database has every acknowledged token, and no session has ended: all passwords are right. */
    async assertKept({ rows }: TestDatabase, t: TestContext): Promise<void> {
      const stored = new Set((await rows('select id from refresh_tokens')).map(({ id }) => id))
      const lost = acknowledged.filter(id => !stored.has(id))
      const ended = failures.filter(({ status }) => status === REFUSED)
      t.diagnostic(
        `failed: ${JSON.stringify(countStatuses(failures))} of ${answeredAt.length + failures.length} requests; ` +
          `${lost.length} of ${acknowledged.length} acknowledged tokens lost, ${ended.length} sessions ended`,
      )
      assert.deepEqual([lost, ended], [[], []])
    },
  }
}
