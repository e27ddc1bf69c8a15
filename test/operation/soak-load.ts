// Users that log in, refresh, ask for their session and log out, as fast as the service answers or at a chosen pace.
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, type Call, PASSWORD } from '../support/service.ts'
import { AUTH, bearer } from '../support/session-client.ts'

export const SOAK_USERS = 200
/** Rounds at the same time. */
const PARALLEL = 8
const REFRESHES = 8
/** One round in four begins with a wrong password. */
const WRONG_EVERY = 4
/** What is answered when a time limit is over, on a machine that is busy with other work. */
const TOO_LATE = [500, 503]

export const soakEmail = (user: number) => `user${user}@example.com`

/** The answers of each kind; `late` are those of time limits, after which a round ends. */
export type Counts = Record<'rounds' | 'logins' | 'wrong' | 'logouts' | 'others' | 'late', number>

type Send = (call: Call) => Promise<Answer>

/** Runs rounds until the deadline, each of another user and address. Fails on every answer that is not the expected one. */
export async function runRounds(
  send: Send,
  counts: Counts,
  durationMs: number,
  roundsPerSecond = Number.POSITIVE_INFINITY,
): Promise<void> {
  const startMs = performance.now()
  let started = 0
  async function runInTurn(): Promise<void> {
    for (;;) {
      const dueMs = (started++ / roundsPerSecond) * 1_000
      if (dueMs >= durationMs || performance.now() - startMs >= durationMs) return
      await sleep(Math.max(0, dueMs - (performance.now() - startMs)))
      await runRound(send, counts)
    }
  }
  await Promise.all(Array.from({ length: PARALLEL }, runInTurn))
}

async function runRound(send: Send, counts: Counts): Promise<void> {
  const round = counts.rounds++
  const user = round % SOAK_USERS
  const from = `127.3.${user + 1}.1`
  const ask = async (kind: keyof Counts, status: number, call: Call): Promise<Answer | null> => {
    const answer = await send({ from, ...call })
    const isLate = TOO_LATE.includes(answer.status)
    if (!isLate) assert.equal(answer.status, status, `${kind} ${call.path}: ${answer.text}`)
    counts[isLate ? 'late' : kind]++
    return isLate ? null : answer
  }
  const attempt = (password: string) => ({ body: { email: soakEmail(user), password } })
  // Another round of each user, because the number of users is a multiple.
  if ((round + Math.floor(round / SOAK_USERS)) % WRONG_EVERY === 0) {
    await ask('wrong', 401, attempt('wrong password'))
  }
  let answer = await ask('logins', 200, attempt(PASSWORD))
  for (let refresh = 0; answer && refresh < REFRESHES; refresh++) {
    const { refreshToken } = answer.json.data
    answer = await ask('others', 200, { path: `${AUTH}/refresh`, body: { refreshToken } })
  }
  if (!answer) return
  const { accessToken, refreshToken } = answer.json.data
  const headers = bearer(accessToken)
  const session = { method: 'GET', path: `${AUTH}/session`, headers }
  const shown = await ask('others', 200, session)
  if (shown) assert.equal(shown.json.data.user.email, soakEmail(user))
  await ask('others', 200, { method: 'GET', path: `${AUTH}/verify`, headers })
  if (!(await ask('logouts', 200, { path: `${AUTH}/logout`, body: { refreshToken } }))) return
  await ask('others', 401, { path: `${AUTH}/refresh`, body: { refreshToken } })
  await ask('others', 401, session)
}
