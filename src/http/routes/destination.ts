// Where a page leads after the login: to the address in `return_to` if the service accepts it. With a `challenge`, the
// address gets a code, by which an application of another site logs in.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../config/config.ts'
import type { LiveSession } from '../../domain/session.ts'
import { type IssueDeps, issueCode } from '../../session/issue-code.ts'
import { acceptedCallback, acceptedReturnTo, originOf } from '../page/return-to.ts'
import { departuresOf, setDepartures } from '../request/cookies.ts'
import { logOf, logRefused } from '../request/log.ts'
import { sendDenied } from './session-access.ts'

/** An application that does not accept the session sends its user back: going there again would not end. */
const MAX_DEPARTURES = 3

type Destination = {
  address: string
  host: string
  /** Null if the application wants no code. */
  code: { callback: string; challenge: string } | null
}

type Asked =
  | { kind: 'none' }
  | ({ kind: 'accepted' } & Destination)
  /** Null: its host cannot be read. */
  | { kind: 'refused'; host: string | null }

/** With a challenge, the application wants a code: the list of origins gives none. */
export function destinationOf(
  request: FastifyRequest,
  { returnToOrigins, codeCallbacks }: Pick<Config, 'returnToOrigins' | 'codeCallbacks'>,
): Asked {
  const { return_to: asked, challenge } = request.query as Record<string, unknown>
  if (asked === undefined) return { kind: 'none' }
  const callback = acceptedCallback(asked, challenge, codeCallbacks)
  const isAccepted = challenge === undefined ? acceptedReturnTo(asked, returnToOrigins) : callback
  if (isAccepted !== null) {
    const address = String(asked)
    const code = callback === null ? null : { callback, challenge: String(challenge) }
    return { kind: 'accepted', address, host: new URL(address).host, code }
  }
  const origin = originOf(asked)
  if (request.method === 'GET') logRefused(request, 'return-to', origin)
  const isKnown = origin !== undefined && URL.canParse(origin)
  return { kind: 'refused', host: isKnown ? new URL(origin).host : null }
}

/** False for what is loaded ahead, in a frame or by a script: it must use up no code. */
export function isNavigation({ method, headers }: FastifyRequest): boolean {
  return (
    method === 'GET' &&
    headers['sec-fetch-mode'] === 'navigate' &&
    headers['sec-fetch-dest'] === 'document' &&
    headers['sec-purpose'] === undefined
  )
}

/** Whether the application has sent the user back too often, within a few seconds. */
export function isSentBack(request: FastifyRequest, { host }: Destination): boolean {
  return departuresOf(request, host) >= MAX_DEPARTURES
}

/** The address to go to, with a code if the application wants one; null if there are no more codes, which is answered. */
export async function depart(
  deps: IssueDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  live: LiveSession,
  { address, host, code }: Destination,
): Promise<string | null> {
  setDepartures(reply, Math.min(departuresOf(request, host) + 1, MAX_DEPARTURES), host)
  if (code === null) return address
  const outcome = await issueCode(deps, live, code.callback, code.challenge)
  if (outcome.kind === 'limited') {
    sendDenied(request, reply, outcome)
    return null
  }
  const { session, user } = live
  const facts = { sessionId: session.id, userId: user.id, callback: code.callback }
  logOf(request).info({ event: 'code.issued', ...facts })
  return `${address}${address.includes('?') ? '&' : '?'}code=${outcome.code}`
}
