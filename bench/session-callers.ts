// Callers that use sessions: each sends its next request after the last answer, which a later request may need.
import { loopbackAddress } from './clients.ts'
import type { Sample } from './closed-loop.ts'
import { Connection, post, type Target } from './connection.ts'
import { CHEAP_COST, emailOf, loginRequest } from './seed.ts'

export const CONNECTIONS = 32
/**
 * A session may be refreshed 60 times per minute, so the callers take turns with many. Refreshes take a third of each
 * minute: these suffice for 24,000 per second.
 */
export const SESSIONS_EACH = 256
export const SESSIONS = CONNECTIONS * SESSIONS_EACH

export type Tokens = { accessToken: string; refreshToken: string }
/** The next request of a caller, and what it does with the answer. */
export type Caller = (turn: number) => { request: Buffer; onAnswer?: (body: Buffer) => void }

export async function openSessions(target: Target): Promise<Tokens[]> {
  const sessions: Tokens[] = []
  let next = 0
  await Promise.all(
    Array.from({ length: 8 }, async (_, lane) => {
      const connection = new Connection(target, loopbackAddress(lane))
      while (next < SESSIONS) {
        const { status, body } = await connection.send(loginRequest(emailOf(next++, CHEAP_COST)))
        if (status !== 200) throw new Error(`a login was answered ${status}`)
        sessions.push(JSON.parse(body.toString()).data)
      }
      connection.close()
    }),
  )
  return sessions
}

/** Each caller has sessions of its own. */
export function callersOf(
  act: (session: Tokens) => ReturnType<Caller>,
  sessions: Tokens[],
  sessionsEach = SESSIONS_EACH,
): Caller[] {
  return Array.from({ length: CONNECTIONS }, (_, lane) => (turn: number) => {
    const session = sessions[lane * SESSIONS_EACH + (turn % sessionsEach)]
    if (!session) throw new Error('too few sessions')
    return act(session)
  })
}

export function refreshes(sessions: Tokens[]): Caller[] {
  const act = (session: Tokens): ReturnType<Caller> => ({
    request: post('/api/v1/auth/refresh', { refreshToken: session.refreshToken }),
    onAnswer: body => Object.assign(session, JSON.parse(body.toString()).data),
  })
  return callersOf(act, sessions)
}

/** A closed loop in which the answer to a request is needed for a later one. */
export function callInTurns(
  target: Target,
  callers: Caller[],
  durationMs: number,
): Promise<Sample[][]> {
  const endMs = performance.now() + durationMs
  return Promise.all(
    callers.map(async (caller, lane) => {
      const connection = new Connection(target, loopbackAddress(lane))
      const samples: Sample[] = []
      for (let turn = 0; performance.now() < endMs; turn++) {
        const { request, onAnswer } = caller(turn)
        const startedMs = performance.now()
        const { status, body } = await connection.send(request)
        samples.push({ status, startedMs, endedMs: performance.now() })
        if (status !== 200) throw new Error(`answered ${status}: ${body}`)
        onAnswer?.(body)
      }
      connection.close()
      return samples
    }),
  )
}
