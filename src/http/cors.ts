// Which pages may call from a browser.
import type { FastifyCorsOptions } from '@fastify/cors'
import type { FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'

const LOCAL_ORIGIN = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/

const SHARED: FastifyCorsOptions = {
  methods: ['GET', 'POST', 'DELETE'],
  allowedHeaders: ['Content-Type', 'Authorization', 'X-Request-ID', 'X-CSRF-Token'],
  exposedHeaders: ['X-Request-ID', 'X-CSRF-Token', 'Retry-After'],
  maxAge: 600,
  strictPreflight: false,
}

type OriginRules = Pick<Config, 'corsOrigins' | 'environment'>

export function corsFor(config: OriginRules) {
  const withoutOrigin = { ...SHARED, ...originOptions(undefined, config), preflight: false }
  return (
    { headers, method }: FastifyRequest,
    done: (error: null, options: FastifyCorsOptions) => void,
  ) => {
    if (headers.origin === undefined) return done(null, withoutOrigin)
    done(null, {
      ...SHARED,
      ...originOptions(headers.origin, config),
      // An OPTIONS request that asks nothing about CORS is a method like any other.
      preflight: method === 'OPTIONS' && headers['access-control-request-method'] !== undefined,
    })
  }
}

/** A listed origin may bring its cookies; an unlisted one may call at most in development, without. */
function originOptions(origin: string | undefined, config: OriginRules): FastifyCorsOptions {
  if (origin !== undefined && isListedOrigin(origin, config)) {
    return { origin: [origin], credentials: true }
  }
  const isOpen = config.corsOrigins === null && config.environment !== 'production'
  return { origin: isOpen ? '*' : false }
}

/** Without a list, development trusts the pages of this machine. */
export function isListedOrigin(origin: string, { corsOrigins, environment }: OriginRules): boolean {
  if (corsOrigins !== null) return corsOrigins.includes(origin)
  return environment !== 'production' && LOCAL_ORIGIN.test(origin)
}
