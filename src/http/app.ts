// The HTTP server: its options, the hooks in their order, and every route.
import { METHODS } from 'node:http'
import { parse as parseQuery } from 'node:querystring'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import type { Config } from '../config/config.ts'
import { createCountedLog } from '../log/counted-log.ts'
import type { LoginAttempt, LoginOutcome } from '../login/login.ts'
import type { RefreshDeps } from '../session/refresh.ts'
import { sendFailure } from './answer/envelope.ts'
import { addHeaders } from './answer/headers.ts'
import { createRequestCounter, limitConnections, TIMEOUTS } from './connection/connections.ts'
import { createProtocolErrors } from './connection/protocol-errors.ts'
import { TLS_OPTIONS, type TlsMaterial } from './connection/tls.ts'
import { handleError } from './errors.ts'
import type { Page } from './page/page.ts'
import { acceptJsonOnly, BODY_MAX_BYTES, InvalidBody } from './request/body.ts'
import { identifyClient } from './request/client.ts'
import { trustProxies } from './request/client-address.ts'
import { cors, isListedOrigin, logRefusedOrigins } from './request/cors.ts'
import { refuseForeignLogins } from './request/csrf.ts'
import { checkFraming } from './request/framing.ts'
import { CLIENT, COUNTED_LOG, requestId } from './request/log.ts'
import { jwksRoute } from './routes/jwks.ts'
import { type LoginBody, loginBody, loginRoute } from './routes/login.ts'
import { logoutRoute } from './routes/logout.ts'
import { assetRoute, pageRoute } from './routes/page.ts'
import { refreshRoute } from './routes/refresh.ts'
import {
  endOtherSessionsRoute,
  endSessionRoute,
  sessionRoute,
  sessionsRoute,
} from './routes/sessions.ts'

type AppDeps = {
  config: Config
  /** Null: plain HTTP for a TLS proxy in front. */
  tls: TlsMaterial | null
  log: FastifyBaseLogger
  sessions: RefreshDeps
  page: Page
  login: (attempt: LoginAttempt) => Promise<LoginOutcome>
  /** Makes the shutdown wait for an operation, even if its caller has disconnected. */
  track: <T>(operation: () => Promise<T>) => Promise<T>
  /** True once the service has been asked to end. Each answer then closes its connection. */
  isStopping: () => boolean
  /** True once the drain delay is over. */
  isRefusing: () => boolean
}

const RETRY_DRAINING_SECONDS = 5
/** Enough for a `return_to` with every character escaped. A longer query is ignored. */
const QUERY_MAX_CHARACTERS = 8_192
const QUERY_MAX_PARAMETERS = 20

export function buildApp(deps: AppDeps): FastifyInstance {
  const { config, log, login, page, track, isStopping, isRefusing } = deps
  const sessions = {
    ...deps.sessions,
    isListedOrigin: (origin: string) => isListedOrigin(origin, config),
  }
  const protocolErrors = createProtocolErrors()
  const serverOptions = { ...TIMEOUTS, requireHostHeader: false }
  const app = Fastify({
    ...(deps.tls
      ? { https: { ...serverOptions, ...deps.tls, ...TLS_OPTIONS } }
      : { http: serverOptions, https: null }),
    requestTimeout: TIMEOUTS.requestTimeout,
    keepAliveTimeout: TIMEOUTS.keepAliveTimeout,
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    // logOf() adds the request's id to each line; a child logger would only cost time.
    childLoggerFactory: parent => parent,
    genReqId: requestId,
    bodyLimit: BODY_MAX_BYTES,
    routerOptions: {
      querystringParser: text =>
        text.length > QUERY_MAX_CHARACTERS
          ? {}
          : parseQuery(text, '&', '=', { maxKeys: QUERY_MAX_PARAMETERS }),
    },
    return503OnClosing: false,
    schemaErrorFormatter: () => new InvalidBody(),
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, allErrors: true } },
    clientErrorHandler: protocolErrors.onClientError,
    frameworkErrors: (error, request, reply) => {
      addHeaders(request, reply)
      // No id is this long, so nothing exists at this address.
      sendFailure(reply, error.code === 'FST_ERR_MAX_PARAM_LENGTH' ? 'NOT_FOUND' : 'BAD_REQUEST')
    },
  })
  const proxies = trustProxies(config.trustedProxies)
  const isLastRequest = createRequestCounter()
  protocolErrors.attach(app.server)
  limitConnections(app.server, proxies)
  for (const method of METHODS) {
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method)
  }

  acceptJsonOnly(app)
  app.setErrorHandler(handleError)
  app.setNotFoundHandler((_request, reply) => sendFailure(reply, 'NOT_FOUND'))

  const countedLog = createCountedLog(log)
  app.decorate(COUNTED_LOG, countedLog)
  app.addHook('onClose', async () => countedLog.flush())
  app.decorateRequest(CLIENT, null)
  app.addHook('onRequest', (request, reply, done) => {
    addHeaders(request, reply)
    if (isLastRequest(request.raw) || isStopping()) reply.header('Connection', 'close')
    done()
  })
  app.addHook('onRequest', cors(config))
  app.addHook('onRequest', (request, reply, done) => {
    const failure = checkFraming(request.raw)
    if (failure) sendFailure(reply.header('Connection', 'close'), failure)
    else done()
  })
  app.addHook('onRequest', identifyClient(proxies))
  app.addHook('onSend', logRefusedOrigins(config))
  app.addHook('onRequest', (_request, reply, done) => {
    if (!isRefusing()) return done()
    sendFailure(reply, 'SERVICE_UNAVAILABLE', { retryAfterSeconds: RETRY_DRAINING_SECONDS })
  })

  const auth = '/api/v1/auth'
  const methodsByUrl = new Map<string, string[]>()
  app.addHook('onRoute', ({ url, method }) => {
    const methods = [...(methodsByUrl.get(url) ?? []), method].flat()
    methodsByUrl.set(url, methods)
  })
  const tracked =
    <Request>(handler: (request: Request, reply: FastifyReply) => Promise<unknown>) =>
    (request: Request, reply: FastifyReply) =>
      track(() => handler(request, reply))
  const loginOptions = {
    schema: { body: loginBody },
    onRequest: refuseForeignLogins(sessions.isListedOrigin),
  }
  app.post<{ Body: LoginBody }>(`${auth}/login`, loginOptions, tracked(loginRoute(login)))
  app.post(`${auth}/refresh`, tracked(refreshRoute(sessions)))
  app.post(`${auth}/logout`, tracked(logoutRoute(sessions)))
  app.get(`${auth}/session`, sessionRoute(sessions))
  app.get(`${auth}/sessions`, sessionsRoute(sessions))
  app.delete(`${auth}/sessions`, tracked(endOtherSessionsRoute(sessions)))
  app.delete(`${auth}/sessions/:id`, tracked(endSessionRoute(sessions)))
  app.get('/.well-known/jwks.json', jwksRoute(sessions.keys))
  for (const url of ['/', '/login']) app.get(url, pageRoute(page, config.returnToOrigins))
  for (const [url, content] of page.assets) app.get(url, assetRoute(content))

  for (const [url, allow] of methodsByUrl) refuseOtherMethods(app, url, allow)
  return app
}

/** Answers before the body is read. */
function refuseOtherMethods(app: FastifyInstance, url: string, allow: string[]): void {
  const refuse = async (_request: FastifyRequest, reply: FastifyReply) =>
    sendFailure(reply, 'METHOD_NOT_ALLOWED', { allow })
  const method = app.supportedMethods.filter(name => !allow.includes(name))
  app.route({ method, url, onRequest: refuse, handler: refuse })
}
