// A server of another site than the login service: its users log in by a code, and it keeps sessions of its own
// (docs/integrating.md, recipe 9). Use the sessions of your framework in place of the map.
import { createHash, randomBytes } from 'node:crypto'
import { LoginClient, LoginError } from './login-client.js'

const login = 'https://login.example.com'
const callback = 'https://app.example.net/logged-in'
const ATTRIBUTES = 'Path=/; Secure; HttpOnly; SameSite=Lax'
const HOUR_MS = 3_600_000
/** @typedef {import('node:http').IncomingMessage} Request @typedef {import('node:http').ServerResponse} Response */
/** @type {Map<string | null, { user: import('./login-client.js').User, endsAt: number }>} */
const sessions = new Map()

/**
 * Answers GET /log-in.
 * @param {Request} _request
 * @param {Response} response
 */
export function goToLogin(_request, response) {
  const verifier = randomBytes(32).toString('base64url')
  const challenge = createHash('sha256').update(verifier).digest('base64url')
  const query = new URLSearchParams({ return_to: callback, challenge })
  const cookie = `__Host-verifier=${verifier}; Max-Age=3600; ${ATTRIBUTES}`
  response.writeHead(302, { Location: `${login}/login?${query}`, 'Set-Cookie': cookie }).end()
}

/**
 * Answers GET /logged-in. Throws if the login service did not answer: answer 503.
 * @param {Request} request
 * @param {Response} response
 */
export async function logIn(request, response) {
  const code = new URL(request.url ?? '', callback).searchParams.get('code')
  const verifier = cookieOf(request, '__Host-verifier')
  // Without a verifier, this browser did not ask for the login: the code may be that of an attacker's account.
  if (!code || !verifier) return response.writeHead(302, { Location: '/log-in' }).end()
  const client = new LoginClient(login)
  try {
    const user = await client.redeem(code, verifier)
    // Keep the client in your session instead, if your server needs access tokens.
    await client.logout()
    const id = randomBytes(32).toString('base64url')
    sessions.set(id, { user, endsAt: Date.now() + HOUR_MS })
    const cookies = [
      `__Host-app=${id}; ${ATTRIBUTES}`,
      `__Host-verifier=; Max-Age=0; ${ATTRIBUTES}`,
    ]
    response.writeHead(302, { Location: '/', 'Set-Cookie': cookies }).end()
  } catch (error) {
    if (!(error instanceof LoginError) || error.status !== 401) throw error
    // The code was too old, or in another tab another login was begun.
    response.writeHead(302, { Location: '/log-in' }).end()
  }
}

/**
 * The user that sent a request; null: redirect to /log-in.
 * @param {Request} request
 */
export function userOf(request) {
  const session = sessions.get(cookieOf(request, '__Host-app'))
  return session && session.endsAt > Date.now() ? session.user : null
}

/**
 * @param {Request} request
 * @param {string} name
 */
function cookieOf({ headers }, name) {
  return new RegExp(`(?:^|; )${name}=([^;]+)`).exec(headers.cookie ?? '')?.[1] ?? null
}
