// Calls the operations of the service. The page is authenticated by the cookie, which no script can read;
// it ignores the tokens in the answers, and keeps only the CSRF token.

/**
 * @typedef {{ id: string, email: string, name: string, role: string }} User
 * @typedef {{ at: string, userAgent: string, ip: string, failuresSince: number }} LastLogin
 * @typedef {{ id: string, createdAt: string, lastUsedAt: string, userAgent: string, ip: string,
 *   current: boolean }} Session
 * @typedef {{ user: User, session?: Session & { lastLogin: LastLogin | null }, sessions: Session[],
 *   next?: string, location?: string }} Data
 * @typedef {{ code: string, fields?: string[], reason?: string }} Failure
 * @typedef {{ status: number, data: Data | null, error: Failure | null,
 *   retryAfterSeconds: number | null }} Answer
 */

/** Longer than the service needs for any answer. */
const TIMEOUT_MS = 20_000

/** @type {Answer} */
const NO_ANSWER = { status: 0, data: null, error: null, retryAfterSeconds: null }

let csrfToken = ''

/**
 * Status 0 if no complete answer arrived.
 * @param {'GET' | 'POST' | 'DELETE'} method
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<Answer>}
 */
export async function call(method, path, body) {
  try {
    const response = await fetch(`/api/v1/auth${path}`, {
      method,
      headers: {
        ...(method !== 'GET' && csrfToken && { 'X-CSRF-Token': csrfToken }),
        ...(body && { 'Content-Type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    csrfToken = response.headers.get('X-CSRF-Token') ?? csrfToken
    const { status, ok, headers } = response
    // A failure may come from a proxy, with a body that is not JSON. A success must be complete JSON.
    const { data = null, error = null } = await response.json().catch(cause => {
      if (ok) throw cause
      return {}
    })
    return { status, data, error, retryAfterSeconds: secondsOf(headers.get('Retry-After')) }
  } catch {
    return NO_ANSWER
  }
}

/** @param {string | null} header */
function secondsOf(header) {
  return header !== null && /^\d{1,6}$/.test(header) ? Number(header) : null
}
