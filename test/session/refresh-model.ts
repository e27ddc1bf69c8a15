// A model of refreshing, without keys, digests, rows or transactions. Times are milliseconds.

export const SECOND = 1_000
export const DAY = 24 * 3600 * SECOND
/** How long a replaced token gets the same successor. */
export const GRACE = 60 * SECOND

/** Request ids and clients are numbers. */
export type ModelCaller = { id: number | null; client: number }

type ModelToken = {
  /** Sessions and tokens are numbered in the order of their creation. */
  session: number
  expiresAt: number
  /** Null while the token is unused. */
  rotatedAt: number | null
  successor: number | null
  /** The caller that got the token; null for the token of a login. */
  issuedTo: ModelCaller | null
}
type ModelSession = { expiresAt: number; isEnded: boolean }

type Expected = { kind: 'invalid' | 'reused' } | { kind: 'refreshed'; successor: number }

export class Model {
  now: number
  isActive = true
  readonly sessions: ModelSession[] = []
  readonly tokens: ModelToken[] = []

  constructor(now: number) {
    this.now = now
  }

  login(): boolean {
    if (!this.isActive) return false
    this.sessions.push({ expiresAt: this.now + 30 * DAY, isEnded: false })
    this.#issue(this.sessions.length - 1, null)
    return true
  }

  refresh(index: number, caller: ModelCaller): Expected {
    const token = this.token(index)
    if (!this.isValid(index)) return { kind: 'invalid' }
    if (token.rotatedAt === null || token.successor === null) {
      token.rotatedAt = this.now
      token.successor = this.#issue(token.session, caller)
      return { kind: 'refreshed', successor: token.successor }
    }
    const isInGrace = this.now <= token.rotatedAt + GRACE
    const { rotatedAt, issuedTo } = this.token(token.successor)
    const isIdNew = caller.id !== null && caller.id !== token.issuedTo?.id
    const isSame = caller.client === issuedTo?.client || (isIdNew && caller.id === issuedTo?.id)
    if (isInGrace && rotatedAt === null && isSame) {
      return { kind: 'refreshed', successor: token.successor }
    }
    this.end(token.session)
    return { kind: 'reused' }
  }

  /** Whether a token, used or not, has not expired and its session is live. */
  isValid(index: number): boolean {
    const { session, expiresAt } = this.token(index)
    return this.now < expiresAt && this.isLive(session)
  }

  isLive(session: number): boolean {
    const { isEnded, expiresAt } = this.#session(session)
    const isIdle = this.token(this.newestOf(session)).expiresAt <= this.now
    return !isEnded && !isIdle && this.now < expiresAt
  }

  /** Returns false if the session was not live. */
  end(session: number): boolean {
    const wasLive = this.isLive(session)
    this.#session(session).isEnded = true
    return wasLive
  }

  newestOf(session: number): number {
    return this.tokens.findLastIndex(token => token.session === session % this.sessions.length)
  }

  token(index: number): ModelToken {
    return at(this.tokens, index)
  }

  #session(index: number): ModelSession {
    return at(this.sessions, index)
  }

  #issue(session: number, issuedTo: ModelCaller | null): number {
    // The times of a token are whole seconds.
    const issuedAt = this.now - (this.now % SECOND)
    const { expiresAt: sessionEnd } = this.#session(session)
    const expiresAt = Math.min(issuedAt + 7 * DAY, sessionEnd - (sessionEnd % SECOND))
    const token = { session, expiresAt, rotatedAt: null, successor: null, issuedTo }
    return this.tokens.push(token) - 1
  }
}

function at<T>(list: T[], index: number): T {
  const item = list[index]
  if (item === undefined) throw new Error(`there is no number ${index}`)
  return item
}
