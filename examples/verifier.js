// Verifies access tokens by the published keys and by the feed of ended sessions: a token is refused within seconds
// after its session has ended. The feed is asked every 2 seconds, however many tokens there are.
//
//   const { verify } = createVerifier('https://login.example.com')
//   const claims = await verify(token)
import { createLocalJWKSet, errors, jwtVerify } from 'jose'

/**
 * `sub` is the id of the user, which never changes, and `sid` that of the session. `amr` has 'mfa' after a login with a
 * second factor.
 * @typedef {{ iss: string, aud: string, sub: string, iat: number, exp: number, jti: string, sid: string,
 *   email: string, name: string, role: string, amr: string[] }} Claims
 */

const ASK_EVERY_MS = 2_000
/** Time enough for a page, which may have thousands of ids. */
const ANSWER_WITHIN_MS = 5_000
/** Longer than a token is accepted: its hour, and 30 seconds for clocks that differ. */
const KEPT_MS = 65 * 60_000
const KEYS_MAX_AGE_MS = 10 * 60_000
/** Longer than a request may take, so that there is one at a time, whatever key ids tokens name. */
const LOAD_AGAIN_MS = 10_000

/**
 * While the feed does not answer, tokens are accepted by what it said last, for `maxSilenceMs`; after that, and if it
 * has never answered, no token is. `Infinity` accepts them however long it is silent, as without a feed.
 * `address` is where the service is reached, if that is not the issuer.
 * `onRefused` is told why a token is refused, for the log.
 * @param {string} issuer
 * @param {{ audience?: string, address?: string, maxSilenceMs?: number, onRefused?: (error: Error) => void }} [options]
 */
export function createVerifier(issuer, options = {}) {
  const { audience = issuer, address = issuer, maxSilenceMs = 60_000, onRefused } = options
  const algorithms = ['ES256', 'EdDSA', 'RS256']
  const rules = { issuer, audience, typ: 'at+jwt', algorithms, clockTolerance: 30 }
  const feed = new URL('/.well-known/ended-sessions', address)
  /** The ids of ended sessions, and when each was learnt. @type {Map<string, number>} */
  const ended = new Map()
  let heardMs = Number.NEGATIVE_INFINITY
  /** @type {unknown} */
  let cause
  let keys = createLocalJWKSet({ keys: [] })
  let loadedMs = Number.NEGATIVE_INFINITY
  let triedMs = Number.NEGATIVE_INFINITY
  let loading = Promise.resolve()

  async function fetchKeys() {
    const signal = AbortSignal.timeout(ANSWER_WITHIN_MS)
    const answer = await fetch(new URL('/.well-known/jwks.json', address), { signal })
    if (!answer.ok) throw new Error(`the request was answered ${answer.status}`)
    const set = Object(await answer.json())
    if (!set.keys?.length) throw new Error('the answer has no keys')
    keys = createLocalJWKSet(set)
    loadedMs = performance.now()
  }

  /** While the service does not answer, the last keys stay. */
  function loadKeys() {
    const nowMs = performance.now()
    if (nowMs - triedMs > LOAD_AGAIN_MS) {
      triedMs = nowMs
      loading = fetchKeys().catch(error => {
        throw new Error('the keys cannot be loaded', { cause: error })
      })
    }
    return loading
  }

  /** Only a token of an unknown key waits for a request. @type {import('jose').JWTVerifyGetKey} */
  const findKey = (header, token) =>
    keys(header, token).catch(async error => {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
      await loadKeys()
      return keys(header, token)
    })

  /** Reads all pages: a token is accepted only by a list that is complete. */
  async function ask() {
    const nowMs = performance.now()
    for (let hasMore = true; hasMore; ) {
      const answer = await fetch(feed, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) })
      // The service does not know the cursor: the next request asks for everything.
      if (answer.status === 400) feed.search = ''
      if (!answer.ok) throw new Error(`the feed of ended sessions answered ${answer.status}`)
      /** @type {{ ended: string[], next: string, more: boolean }} */
      const { ended: ids, next, more } = Object(await answer.json())
      for (const id of ids) if (!ended.has(id)) ended.set(id, nowMs)
      feed.searchParams.set('after', next)
      hasMore = more
    }
    for (const [id, learntMs] of ended) if (learntMs < nowMs - KEPT_MS) ended.delete(id)
    heardMs = nowMs
  }

  async function follow() {
    if (performance.now() - loadedMs > KEYS_MAX_AGE_MS) loadKeys().catch(() => {})
    await ask().catch(error => {
      cause = error
    })
    setTimeout(follow, ASK_EVERY_MS).unref()
  }
  const started = follow()

  /** Enough by itself behind a gateway that verifies the tokens. Throws while the feed is silent. @param {unknown} sid */
  function isEnded(sid) {
    if (performance.now() - heardMs > maxSilenceMs) {
      throw new Error('the feed of ended sessions is silent', { cause })
    }
    return ended.has(String(sid))
  }

  /**
   * The claims of a token; null if it is not valid: answer 401. Throws if that is not known: answer 503.
   * @param {string} token
   * @returns {Promise<Claims | null>}
   */
  async function verify(token) {
    await started
    try {
      const { payload } = await jwtVerify(token, findKey, rules)
      const claims = /** @type {Claims} */ (payload)
      return isEnded(claims.sid) ? null : claims
    } catch (error) {
      if (!(error instanceof errors.JOSEError)) throw error
      onRefused?.(error)
      return null
    }
  }

  return { verify, isEnded }
}
