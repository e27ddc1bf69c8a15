// CORS: the origins whose pages may call the service from a browser.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../config/config.ts'
import { isRefused, logRefused } from './log.ts'

const LOCAL_ORIGIN = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/

const ALLOWED = 'access-control-allow-origin'
const EXPOSED_HEADERS = 'X-Request-ID, X-CSRF-Token, Retry-After'
const PREFLIGHT_HEADERS = {
  'Access-Control-Allow-Methods': 'GET, POST, DELETE',
  'Access-Control-Allow-Headers': 'Content-Type, Authorization, X-Request-ID, X-CSRF-Token',
  'Access-Control-Max-Age': '600',
  // Without it, some browsers wait for a body.
  'Content-Length': '0',
}

export type OriginRules = Pick<Config, 'corsOrigins' | 'codeCallbacks' | 'nodeEnv'>

/** Adds the CORS headers to answers for allowed origins. */
export function cors(rules: OriginRules) {
  const callbackOrigins = rules.codeCallbacks.map(callback => new URL(callback).origin)
  const isOpen = rules.corsOrigins === null && rules.nodeEnv !== 'production'

  /**
   * A listed origin may send cookies. That of an application that gets codes may call without cookies, and so may any
   * origin in development without a list.
   */
  function headersFor(origin: string): Record<string, string> | null {
    if (isListedOrigin(origin, rules)) {
      return { [ALLOWED]: origin, 'access-control-allow-credentials': 'true' }
    }
    if (callbackOrigins.includes(origin)) return { [ALLOWED]: origin }
    return isOpen ? { [ALLOWED]: '*' } : null
  }

  return ({ headers }: FastifyRequest, reply: FastifyReply, done: () => void) => {
    reply.header('vary', 'Origin')
    const allowed = headers.origin === undefined ? null : headersFor(headers.origin)
    if (allowed) reply.headers(allowed).header('Access-Control-Expose-Headers', EXPOSED_HEADERS)
    done()
  }
}

/** Answers the preflight requests of allowed origins. Any other OPTIONS request is routed like every method. */
export function answerPreflights(
  { method, headers }: FastifyRequest,
  reply: FastifyReply,
  done: () => void,
) {
  const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
  if (isPreflight && reply.hasHeader(ALLOWED)) reply.code(204).headers(PREFLIGHT_HEADERS).send()
  else done()
}

/** Logs a request from an origin that is not listed: the browser does not show the answer to its page. */
export function logRefusedOrigins(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
) {
  const { origin, host, 'sec-fetch-site': site } = request.headers
  if (origin === undefined) return done(null, payload)
  // Browsers send Origin with requests of our own page too.
  const isOwn = site === 'same-origin' || origin === `https://${host}`
  if (!isOwn && !reply.hasHeader(ALLOWED) && !isRefused(request)) {
    logRefused(request, 'origin', origin)
  }
  done(null, payload)
}

/** In development without a list, the origins of this machine count as listed. */
export function isListedOrigin(origin: string, { corsOrigins, nodeEnv }: OriginRules): boolean {
  if (corsOrigins !== null) return corsOrigins.includes(origin)
  return nodeEnv !== 'production' && LOCAL_ORIGIN.test(origin)
}
