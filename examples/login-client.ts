// A small client for browsers and Node: logs in, refreshes the access token in time, and logs out.

export type User = { id: string; email: string; name: string; role: string; createdAt?: string }

/** A failure that the service answered with. */
export class LoginError extends Error {
  readonly code: string
  readonly status: number
  readonly retryAfterSeconds: number | null

  constructor(code: string, message: string, status: number, retryAfterSeconds: number | null) {
    super(message)
    this.code = code
    this.status = status
    this.retryAfterSeconds = retryAfterSeconds
  }
}

type Tokens = { user: User; accessToken: string; refreshToken: string; expiresIn: number }
type Envelope =
  | { success: true; data: Tokens }
  | { success: false; error: { code: string; message: string } }

/** A new access token is fetched when the old one expires within this time. */
const REFRESH_BEFORE_MS = 60_000
/** The client does not wait longer than this by itself; the user decides. */
const MAX_WAIT_SECONDS = 5

export class LoginClient {
  readonly #baseUrl: string
  #tokens: Tokens | null = null
  #expiresAtMs = 0
  #refreshing: Promise<Tokens> | null = null

  constructor(baseUrl: string) {
    this.#baseUrl = `${baseUrl}/api/v1/auth`
  }

  get user(): User | null {
    return this.#tokens?.user ?? null
  }

  async login(email: string, password: string): Promise<User> {
    return this.#keep(await this.#post('/login', { email, password })).user
  }

  /** A token that does not expire within a minute. Parallel calls share one refresh. */
  async accessToken(): Promise<string> {
    if (!this.#tokens) throw new LoginError('NOT_LOGGED_IN', 'Log in first', 401, null)
    if (Date.now() < this.#expiresAtMs - REFRESH_BEFORE_MS) return this.#tokens.accessToken
    this.#refreshing ??= this.refresh().finally(() => {
      this.#refreshing = null
    })
    return (await this.#refreshing).accessToken
  }

  async refresh(): Promise<Tokens> {
    const refreshToken = this.#tokens?.refreshToken
    return this.#keep(await this.#post('/refresh', { refreshToken }))
  }

  async logout(): Promise<void> {
    const refreshToken = this.#tokens?.refreshToken
    this.#tokens = null
    if (refreshToken) await this.#post('/logout', { refreshToken })
  }

  #keep(tokens: Tokens): Tokens {
    this.#tokens = tokens
    this.#expiresAtMs = Date.now() + tokens.expiresIn * 1000
    return tokens
  }

  /** Waits once for a short Retry-After and repeats the request. Repeating a refresh is safe. */
  async #post(path: string, body: object, mayWait = true): Promise<Tokens> {
    const response = await fetch(this.#baseUrl + path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    })
    const envelope = (await response.json()) as Envelope
    if (envelope.success) return envelope.data
    const header = response.headers.get('Retry-After')
    const seconds = header === null ? null : Number(header)
    if (seconds !== null && seconds <= MAX_WAIT_SECONDS && mayWait) {
      await new Promise(resolve => setTimeout(resolve, seconds * 1000))
      return this.#post(path, body, false)
    }
    const { code, message } = envelope.error
    throw new LoginError(code, message, response.status, seconds)
  }
}
