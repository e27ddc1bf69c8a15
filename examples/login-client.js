// A client for browsers and Node 20 or newer: logs in, changes passwords and second factors, gives access tokens that do not
// expire soon, shows, lists and ends sessions. login-client.d.ts is made from this file: npm run typecheck
//
//   new LoginClient(url)                    programs: the refresh token stays in memory
//   new LoginClient(url, { storage })       native apps: the refresh token is stored, and survives a restart. A storage
//                                           is for one client, or for the tabs of a page, which take turns: if two
//                                           clients use an old token, the service ends the session
//   new LoginClient(url, { cookie: true })  pages of the same site: no refresh token, the browser keeps a cookie

/**
 * @typedef {{ id: string, email: string, name: string, role: string, createdAt: string }} User
 * @typedef {{ id: string, createdAt: string, lastUsedAt: string, expiresAt: string, userAgent: string,
 *   ip: string, amr: string[], current: boolean }} Session
 * @typedef {{ at: string, ip: string, userAgent: string, failuresSince: number, guessesSince: number }} LastLogin
 * @typedef {Session & { lastLogin: LastLogin | null }} CurrentSession
 * @typedef {{ read: () => Promise<string | null>,
 *   write: (refreshToken: string | null) => Promise<void> }} TokenStorage
 * @typedef {'VALIDATION_ERROR' | 'BAD_REQUEST' | 'INVALID_CREDENTIALS' | 'INVALID_TOKEN' | 'HTTPS_REQUIRED'
 *   | 'CSRF_FAILED' | 'FORBIDDEN' | 'PASSWORD_CHANGE_REQUIRED' | 'SECOND_FACTOR_REQUIRED' | 'NOT_FOUND'
 *   | 'METHOD_NOT_ALLOWED' | 'REQUEST_TIMEOUT' | 'PAYLOAD_TOO_LARGE' | 'UNSUPPORTED_MEDIA_TYPE'
 *   | 'EXPECTATION_FAILED' | 'TOO_MANY_ATTEMPTS' | 'TOO_MANY_REQUESTS' | 'HEADERS_TOO_LARGE' | 'INTERNAL_ERROR'
 *   | 'SECOND_FACTOR_UNAVAILABLE' | 'SERVICE_UNAVAILABLE'} ServiceCode
 * @typedef {ServiceCode | 'NO_ANSWER' | 'NO_COOKIE' | 'NOT_LOGGED_IN' | 'OTHER_USER' | 'UNEXPECTED'} ErrorCode
 * @typedef {'too_short' | 'too_long' | 'too_common' | 'personal' | 'unchanged'} PasswordFlaw
 * @typedef {'malformed' | 'wrong_code' | 'passkey_wrong' | 'passkey_elsewhere' | 'passkey_late'
 *   | 'passkey_known' | 'too_many_passkeys' | 'no_second_factor' | 'demanded'} FactorFlaw
 * @typedef {{ secret: string, newOtp: string, newPassword?: string } | { secret: null }
 *   | { remove: string } | { recoveryCodes: true }} FactorChange
 * @typedef {{ user: User, accessToken: string, refreshToken?: string, expiresIn: number, recoveryCodes?: string[],
 *   session: CurrentSession, sessions: Session[], next?: string }} Data
 * @typedef {{ data: Data, error?: { code: ServiceCode, message: string, reason?: PasswordFlaw | FactorFlaw } }} Envelope
 * @typedef {{ method: string, path: string, body?: object, headers?: Record<string, string> }} Call
 */

/** Longer than the service needs for any answer. All tries together stay within the 60 seconds of a lost refresh. */
const TIMEOUT_MS = 10_000
const MAX_TRIES = 3
/** The client does not wait longer than this by itself; the user decides. */
const MAX_WAIT_SECONDS = 5
const REFRESH_BEFORE_MS = 60_000
/** With the cookie, a refresh is also what keeps the session from expiring without use, after 5 minutes at the earliest. */
const COOKIE_REFRESH_AFTER_MS = 3 * 60_000
/** Not repeated after a lost answer: a wrong password would be counted twice. */
const LOGINS = ['/login', '/password', '/second-factor']
/** The codes of Node for a certificate that it does not trust, such as DEPTH_ZERO_SELF_SIGNED_CERT. */
const CERTIFICATE_CODE = /CERT|SIGNATURE/

const NO_COOKIE =
  'The login succeeded, but the browser does not send its cookie. Serve this page over https from the site of the login service, or through a proxy (such as that of Vite), or use tokens in place of the cookie'

/** A failure that the service answered with; status 0 if it did not answer. */
export class LoginError extends Error {
  /**
   * @param {ErrorCode} code
   * @param {string} message
   * @param {number} status
   * @param {number | null} retryAfterSeconds
   * @param {PasswordFlaw | FactorFlaw | null} reason what is wrong with a new password or second factor
   */
  constructor(code, message, status, retryAfterSeconds = null, reason = null) {
    super(message)
    this.code = code
    this.status = status
    this.retryAfterSeconds = retryAfterSeconds
    this.reason = reason
  }
}

export class LoginClient {
  /** @type {string} */
  #baseUrl
  /** @type {boolean} */
  #isCookie
  /** @type {TokenStorage} */
  #storage
  /** @type {User | null} */
  #user = null
  /** With the cookie: the user of this page, also after the session has ended; empty before a login and after logout(). */
  #ownerId = ''
  #accessToken = ''
  #refreshAtMs = 0
  /**
   * The id of a refresh until its answer is kept. By the same id the service knows its caller again, on another
   * network too. Pages without HTTPS cannot make one.
   * @type {string | undefined}
   */
  #refreshId
  /** @type {Promise<string> | null} */
  #refreshing = null
  /** @type {Promise<unknown>} */
  #previous = Promise.resolve()
  /**
   * For tabs that share a storage. Pages without HTTPS, and old browsers, have no locks.
   * @type {Navigator['locks'] | undefined}
   */
  #locks

  /**
   * @param {string} baseUrl such as https://login.example.com
   * @param {{ cookie?: boolean, storage?: TokenStorage }} options
   */
  constructor(baseUrl, { cookie = false, storage } = {}) {
    this.#baseUrl = `${baseUrl.replace(/\/$/, '')}/api/v1/auth`
    this.#isCookie = cookie
    this.#storage = storage ?? createMemory()
    // Node has locks too, but in one process there may be clients of many users.
    if (storage && 'document' in globalThis) this.#locks = navigator.locks
  }

  /** The user of the last answer; null before a login or restore(), and after the session has ended. */
  get user() {
    return this.#user
  }

  /**
   * No answer tells whether a code is missing or wrong: always show a field for it, or from the first refusal on.
   * @param {string} email
   * @param {string} password
   * @param {string} [otp] a code of the user's authenticator app, or a recovery code
   */
  async login(email, password, otp) {
    const { user } = await this.#open('/login', { email, password, otp })
    return user
  }

  /**
   * A login that also replaces the password. All other sessions of the user end. It is the only use of a temporary
   * password, for which login() fails with PASSWORD_CHANGE_REQUIRED.
   * @param {string} email
   * @param {string} currentPassword
   * @param {string} newPassword
   * @param {string} [otp]
   */
  async changePassword(email, currentPassword, newPassword, otp) {
    const { user } = await this.#open('/password', { email, currentPassword, newPassword, otp })
    return user
  }

  /**
   * A login that also changes the second factor. All other sessions of the user end. Returns new recovery codes, if
   * there are any, to be shown once. login() fails with SECOND_FACTOR_REQUIRED for users that must set one up.
   * @param {string} email
   * @param {string} password
   * @param {FactorChange} change `secret`: random bytes in base32, which the user has put into an app
   * @param {string} [otp] of the present factor
   * @returns {Promise<string[] | null>}
   */
  async changeSecondFactor(email, password, change, otp) {
    const body = { email, password, otp, ...change }
    const { recoveryCodes } = await this.#open('/second-factor', body)
    return recoveryCodes ?? null
  }

  /**
   * A login with the code that the login page has added to your address. `verifier` is the text whose SHA-256 was the
   * `challenge`. Never call it with a code that this browser did not ask for.
   * @param {string} code
   * @param {string} verifier
   */
  async redeem(code, verifier) {
    const { user } = await this.#open('/code', { code, verifier })
    return user
  }

  /** Continues a session from before a restart or a reload of the page; null if there is none, or another user’s. */
  async restore() {
    try {
      await this.accessToken()
    } catch (error) {
      if (!isEnded(error)) throw error
    }
    return this.#user
  }

  /** A token that does not expire soon. Parallel calls share one refresh. */
  async accessToken() {
    if (Date.now() < this.#refreshAtMs) return this.#accessToken
    this.#refreshing ??= this.#inTurn(() => this.#refresh()).finally(() => {
      this.#refreshing = null
    })
    return this.#refreshing
  }

  /** The session of this client, with the user’s login before it. Fails with INVALID_TOKEN if it has ended. */
  async session() {
    const { data } = await this.#authenticated('GET', '/session')
    return data.session
  }

  /** All live sessions of the user. */
  async sessions() {
    /** @type {Session[]} */
    const sessions = []
    let query = ''
    do {
      const { data } = await this.#authenticated('GET', `/sessions${query}`)
      sessions.push(...data.sessions)
      query = data.next ? `?after=${data.next}` : ''
    } while (query)
    return sessions
  }

  /** @param {string} id */
  async endSession(id) {
    try {
      await this.#authenticated('DELETE', `/sessions/${id}`)
    } catch (error) {
      // It has already ended, perhaps by a request whose answer was lost.
      if (!(error instanceof LoginError) || error.status !== 404) throw error
    }
  }

  async logout() {
    await this.#inTurn(() => this.#logout())
  }

  /** Ends all sessions of the user, this one last. Services accept access tokens until they expire. */
  async logoutEverywhere() {
    await this.#authenticated('DELETE', '/sessions')
    await this.logout()
  }

  /**
   * @param {string} path
   * @param {object} body
   */
  #open(path, body) {
    return this.#inTurn(async () => {
      const { data } = await this.#send({ method: 'POST', path, body })
      if (this.#isCookie) await this.#checkCookie()
      await this.#keep(data)
      return data
    })
  }

  /** A browser drops the cookie without a word if the page is of another site, also if only the scheme differs. */
  async #checkCookie() {
    const { failure } = await this.#try({ method: 'GET', path: '/session' })
    if (failure?.status === 401) throw new LoginError('NO_COOKIE', NO_COOKIE, 401)
  }

  async #refresh() {
    // An earlier operation in turn may have brought a new token.
    if (Date.now() < this.#refreshAtMs) return this.#accessToken
    try {
      this.#refreshId ??= crypto.randomUUID?.()
      const headers = this.#refreshId ? { 'X-Request-ID': this.#refreshId } : {}
      const call = await this.#proved({ method: 'POST', path: '/refresh', headers })
      const { data } = await this.#send(call)
      await this.#keep(data)
      return this.#accessToken
    } catch (error) {
      if (isEnded(error)) await this.#forget()
      throw error
    }
  }

  async #logout() {
    try {
      await this.#send(await this.#proved({ method: 'POST', path: '/logout' }))
    } catch (error) {
      if (!isEnded(error)) throw error
    }
    this.#ownerId = ''
    await this.#forget()
  }

  /**
   * Adds the refresh token, or the CSRF token of the session that the cookie belongs to.
   * @param {Call} call
   * @returns {Promise<Call>}
   */
  async #proved(call) {
    if (this.#isCookie) return { ...call, headers: { ...call.headers, ...(await this.#csrf()) } }
    const refreshToken = await this.#storage.read()
    if (refreshToken === null) throw new LoginError('NOT_LOGGED_IN', 'Log in first', 401)
    return { ...call, body: { refreshToken } }
  }

  async #csrf() {
    const { data, headers } = await this.#send({ method: 'GET', path: '/session' })
    // In another tab, another user may have logged in. No change of this page may reach that account.
    if (this.#ownerId && data.user.id !== this.#ownerId) {
      throw new LoginError('OTHER_USER', 'Another user has logged in: load the page again', 401)
    }
    return { 'X-CSRF-Token': headers.get('X-CSRF-Token') ?? '' }
  }

  /**
   * @param {'GET' | 'DELETE'} method
   * @param {string} path
   */
  async #authenticated(method, path) {
    const accessToken = await this.accessToken()
    try {
      const headers = { Authorization: `Bearer ${accessToken}` }
      return await this.#send({ method, path, headers })
    } catch (error) {
      if (isEnded(error) && accessToken === this.#accessToken) await this.#forget()
      throw error
    }
  }

  /** @param {Data} data */
  async #keep({ user, accessToken, refreshToken, expiresIn }) {
    // First: if it fails, the next call repeats the refresh while that is still possible.
    if (!this.#isCookie && refreshToken) await this.#storage.write(refreshToken)
    this.#refreshId = undefined
    this.#user = user
    this.#ownerId = user.id
    this.#accessToken = accessToken
    // At most a tenth of its life early: tests use tokens that live for seconds.
    const untilRefreshMs = expiresIn * 1000 - Math.min(REFRESH_BEFORE_MS, expiresIn * 100)
    this.#refreshAtMs =
      Date.now() +
      (this.#isCookie ? Math.min(untilRefreshMs, COOKIE_REFRESH_AFTER_MS) : untilRefreshMs)
  }

  async #forget() {
    this.#refreshId = undefined
    this.#user = null
    this.#accessToken = ''
    this.#refreshAtMs = 0
    if (!this.#isCookie) await this.#storage.write(null)
  }

  /**
   * One after the other, in all tabs that share a storage: a refresh that is under way must not bring back a session
   * after its logout, and the next tab must read the token that the refresh has stored.
   * @template T
   * @param {() => Promise<T>} operation
   * @returns {Promise<T>}
   */
  #inTurn(operation) {
    const result = this.#previous.then(() =>
      this.#locks ? this.#locks.request(this.#baseUrl, operation) : operation(),
    )
    this.#previous = result.catch(() => {})
    return result
  }

  /**
   * Repeats a request after a short Retry-After, and after a lost answer or a 5xx unless it is a login.
   * @param {Call} call
   */
  async #send(call) {
    for (let tries = 1; ; tries++) {
      const answer = await this.#try(call)
      if (!answer.failure) return answer
      const { failure } = answer
      const isLost = (failure.status === 0 && !answer.isUntrusted) || failure.status >= 500
      const isRepeatable = isLost && !LOGINS.includes(call.path)
      const waitSeconds = failure.retryAfterSeconds ?? (isRepeatable ? tries : Infinity)
      if (tries === MAX_TRIES || waitSeconds > MAX_WAIT_SECONDS) throw failure
      await new Promise(resolve => setTimeout(resolve, waitSeconds * 1000))
    }
  }

  /** @param {Call} call */
  async #try({ method, path, body, headers = {} }) {
    try {
      const response = await fetch(this.#baseUrl + path, {
        method,
        headers: { ...headers, ...(body && { 'Content-Type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
        credentials: this.#isCookie ? 'include' : 'omit',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      })
      if (response.ok) {
        const { data } = /** @type {Envelope} */ (await response.json())
        return { data, headers: response.headers }
      }
      return { failure: await failureOf(response) }
    } catch (cause) {
      // Only Node says why.
      const { code = '' } = /** @type {{ cause?: { code?: string } }} */ (cause).cause ?? {}
      const why = code || 'the network, CORS, or a certificate that is not trusted'
      const failure = new LoginError('NO_ANSWER', `The login service did not answer: ${why}`, 0)
      failure.cause = cause
      return { failure, isUntrusted: CERTIFICATE_CODE.test(code) }
    }
  }
}

/** @param {Response} response */
async function failureOf(response) {
  // A proxy may answer with a page of its own.
  const { error } = /** @type {Partial<Envelope>} */ (await response.json().catch(() => ({})))
  const { code = 'UNEXPECTED', message = `The answer was ${response.status}` } = error ?? {}
  const retryAfter = response.headers.get('Retry-After') ?? ''
  const seconds = /^\d+$/.test(retryAfter) ? Number(retryAfter) : null
  return new LoginError(code, message, response.status, seconds, error?.reason ?? null)
}

/**
 * True if there is no live session (any more).
 * @param {unknown} error
 */
function isEnded(error) {
  return error instanceof LoginError && error.status === 401
}

/** @returns {TokenStorage} */
function createMemory() {
  /** @type {string | null} */
  let stored = null
  return {
    read: async () => stored,
    write: async refreshToken => {
      stored = refreshToken
    },
  }
}
