// Users that log in, refresh, ask for their session and log out, as fast as the service answers or at a chosen pace.
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, type Call, PASSWORD } from '../service.ts'
import { AUTH, bearer } from '../session-client.ts'

export const SOAK_USERS = 200
/** Rounds at the same time. */
const PARALLEL = 8
const REFRESHES = 8
/** One round in four begins with a wrong password. */
const WRONG_EVERY = 4
/** A machine that is busy with other work may have no time for an attempt. */
const SHED = 503

export const soakEmail = (user: number) => `user${user}@example.com`

/** The number of answers of each kind, and of attempts that were shed. */
export type Counts = { rounds: number; logins: number; wrong: number; others: number; shed: number }

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
  const attempt = (password: string) => send({ from, body: { email: soakEmail(user), password } })
  const expect = async (status: number, call: Call) => {
    const answer = await send({ from, ...call })
    assert.equal(answer.status, status, `${call.method ?? 'POST'} ${call.path}: ${answer.text}`)
    counts.others++
    return answer
  }
  // Another round of each user, because the number of users is a multiple.
  if ((round + Math.floor(round / SOAK_USERS)) % WRONG_EVERY === 0) {
    const { status, text } = await attempt('wrong password')
    assert.ok(status === 401 || status === SHED, text)
    counts[status === 401 ? 'wrong' : 'shed']++
  }
  const login = await attempt(PASSWORD)
  assert.ok(login.status === 200 || login.status === SHED, login.text)
  counts[login.status === 200 ? 'logins' : 'shed']++
  if (login.status === SHED) return

  let { accessToken, refreshToken } = login.json.data
  for (let refresh = 0; refresh < REFRESHES; refresh++) {
    const { json } = await expect(200, { path: `${AUTH}/refresh`, body: { refreshToken } })
    ;({ accessToken, refreshToken } = json.data)
  }
  const headers = bearer(accessToken)
  const session = await expect(200, { method: 'GET', path: `${AUTH}/session`, headers })
  assert.equal(session.json.data.user.email, soakEmail(user))
  await expect(200, { method: 'GET', path: `${AUTH}/verify`, headers })
  await expect(200, { path: `${AUTH}/logout`, body: { refreshToken } })
  await expect(401, { path: `${AUTH}/refresh`, body: { refreshToken } })
  await expect(401, { method: 'GET', path: `${AUTH}/session`, headers })
}
