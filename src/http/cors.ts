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

export function corsFor({ corsOrigins, environment }: Config) {
  return async ({ headers, method }: FastifyRequest): Promise<FastifyCorsOptions> => ({
    ...SHARED,
    ...originOptions(headers.origin, corsOrigins, environment),
    // An OPTIONS request that asks nothing about CORS is a method like any other.
    preflight:
      method === 'OPTIONS' &&
      headers.origin !== undefined &&
      headers['access-control-request-method'] !== undefined,
  })
}

/** A listed origin may bring its cookies; an unlisted one may call at most in development, without. */
function originOptions(
  origin: string | undefined,
  listed: readonly string[] | null,
  environment: Config['environment'],
): FastifyCorsOptions {
  if (listed) {
    const isListed = origin !== undefined && listed.includes(origin)
    return { origin: isListed ? [origin] : false, credentials: isListed }
  }
  if (environment === 'production') return { origin: false }
  const isLocal = origin !== undefined && LOCAL_ORIGIN.test(origin)
  return isLocal ? { origin: [origin], credentials: true } : { origin: '*' }
}
