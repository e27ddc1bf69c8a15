// Recognises the caller of a refresh when it repeats the refresh. A thief with a copy of the replaced token must not get
// its successor.
import { hash } from 'node:crypto'
import type { CallerDigests, FoundRefreshToken } from '../domain/refresh-token.ts'

/** 132 bits of SHA-256 in base64url: short, because the rows of replaced tokens are kept for a week. */
const DIGEST_CHARACTERS = 22

export type RefreshCaller = {
  /** The request id that the client sent; null if it sent none, or no UUID. */
  requestId: string | null
  group: string
  userAgent: string
}

type ValidToken = Extract<FoundRefreshToken, { kind: 'found' }>

/** `token` is the one that the caller shows. */
export function digestCaller(
  caller: RefreshCaller,
  token: string,
  successorId: string,
): CallerDigests {
  return {
    requestDigest: digestRequestId(caller, successorId),
    clientDigest: digestClient(caller, token),
  }
}

/** How the caller that has replaced this token is recognised; null if this is another caller. */
export function recogniseCaller(
  caller: RefreshCaller,
  { id, token }: { id: string; token: string },
  { requestDigest, successor }: Pick<ValidToken, 'requestDigest' | 'successor'>,
): 'id' | 'client' | null {
  if (successor === null) return null
  const isSame = (digest: string | null, rowId: string) =>
    digest !== null && digest === digestRequestId(caller, rowId)
  // An id that the caller also sent with the refresh before may be the same for all requests of an application, and
  // known to a thief.
  if (isSame(successor.requestDigest, successor.id) && !isSame(requestDigest, id)) return 'id'
  return successor.clientDigest === digestClient(caller, token) ? 'client' : null
}

function digestRequestId({ requestId }: RefreshCaller, rowId: string): string | null {
  return requestId && shortDigest(`${rowId}\n${requestId.toLowerCase()}`)
}

/** With the token, which is not stored: a stolen database does not tell which address it was, not even by trying all. */
function digestClient({ group, userAgent }: RefreshCaller, token: string): string {
  return shortDigest(`${token}\n${group}\n${userAgent}`)
}

function shortDigest(text: string): string {
  return hash('sha256', text, 'base64url').slice(0, DIGEST_CHARACTERS)
}
