// The HTTP edge, composed by hand: hooks in their order, then every route.
import { METHODS } from 'node:http'
import cors from '@fastify/cors'
import helmet from '@fastify/helmet'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type HTTPMethods,
  LogController,
} from 'fastify'
import type { Config } from '../config.ts'
import type { LoginAttempt, LoginOutcome } from '../login/login.ts'
import type { Keys } from '../session/keys.ts'
import { acceptJsonOnly, BODY_MAX_BYTES } from './body.ts'
import { trustProxies } from './client-address.ts'
import { corsFor } from './cors.ts'
import { sendFailure } from './envelope.ts'
import { handleError } from './errors.ts'
import { jwksRoute } from './jwks-route.ts'
import { type LoginBody, loginBody, loginRoute } from './login-route.ts'
import { requestId } from './request-id.ts'
import type { TlsMaterial } from './tls.ts'
import { CLIENT, identifyClient } from './transport.ts'

export type AppDeps = {
  config: Config
  /** Null: plain HTTP for a TLS proxy in front. */
  tls: TlsMaterial | null
  log: FastifyBaseLogger
  keys: Keys
  login: (attempt: LoginAttempt) => Promise<LoginOutcome>
  /** True once the service is on its way out. */
  isDraining: () => boolean
}

const ONE_YEAR_SECONDS = 31_536_000
/** An answer is data: nothing in it is ever to be loaded, run or framed. */
const API_CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'"
const RETRY_DRAINING_SECONDS = 5

export async function buildApp(deps: AppDeps): Promise<FastifyInstance> {
  const { config, log, keys, login, isDraining } = deps
  const app = Fastify({
    https: deps.tls && { ...deps.tls, minVersion: 'TLSv1.2' },
    loggerInstance: log,
    logController: new LogController({
      disableRequestLogging: true,
      requestIdLogLabel: 'requestId',
    }),
    genReqId: requestId,
    bodyLimit: BODY_MAX_BYTES,
    return503OnClosing: false,
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, allErrors: true } },
  })
  for (const method of METHODS) {
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method)
  }

  app.decorateRequest(CLIENT, null)
  app.addHook('onRequest', async (request, reply) => {
    reply.headers({
      'X-Request-ID': request.id,
      'Cache-Control': 'no-store',
      'Content-Security-Policy': API_CONTENT_SECURITY_POLICY,
    })
  })
  await app.register(helmet, {
    contentSecurityPolicy: false,
    hsts: { maxAge: ONE_YEAR_SECONDS, includeSubDomains: true },
    referrerPolicy: { policy: 'no-referrer' },
    frameguard: { action: 'deny' },
  })
  await app.register(cors, { delegator: corsFor(config) })
  app.addHook('onRequest', identifyClient(trustProxies(config.trustedProxies)))
  app.addHook('onRequest', async (_request, reply) => {
    if (!isDraining()) return
    reply.header('Connection', 'close')
    return sendFailure(reply, 'SERVICE_UNAVAILABLE', { retryAfterSeconds: RETRY_DRAINING_SECONDS })
  })
  acceptJsonOnly(app)
  app.setErrorHandler(handleError)
  app.setNotFoundHandler((_request, reply) => sendFailure(reply, 'NOT_FOUND'))

  app.post<{ Body: LoginBody }>(
    '/api/v1/auth/login',
    { schema: { body: loginBody } },
    loginRoute(login),
  )
  refuseOtherMethods(app, '/api/v1/auth/login', ['POST'])
  app.get('/.well-known/jwks.json', jwksRoute(keys))
  refuseOtherMethods(app, '/.well-known/jwks.json', ['GET', 'HEAD'])
  return app
}

/** Before anything is read of a body: what is in it does not matter. */
function refuseOtherMethods(app: FastifyInstance, url: string, allow: HTTPMethods[]): void {
  const refuse = async (_request: FastifyRequest, reply: FastifyReply) =>
    sendFailure(reply, 'METHOD_NOT_ALLOWED', { allow })
  const method = app.supportedMethods.filter(name => !allow.includes(name))
  app.route({ method, url, onRequest: refuse, handler: refuse })
}
