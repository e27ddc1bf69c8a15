// What the public app and the admin app share: the server's options and limits, the hooks of every request, and
// the answers to requests that no route takes.
import { type IncomingMessage, METHODS } from 'node:http'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
  type onRequestAsyncHookHandler,
} from 'fastify'
import type { Config } from '../config/config.ts'
import { createCountedLog } from '../log/counted-log.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { clientGroup } from '../system/client-group.ts'
import { sendFailure } from './answer/envelope.ts'
import { addHeaders, protectiveHeaders } from './answer/headers.ts'
import { limitConnections, TIMEOUTS } from './connection/connections.ts'
import {
  answerClientError,
  answerUnrouted,
  isPlainHttp,
  type RawPage,
} from './connection/protocol-errors.ts'
import { TLS_OPTIONS, type TlsMaterial } from './connection/tls.ts'
import { handleError } from './errors.ts'
import { countAnswers, refuseBadFraming, refuseWhileDraining, setHeaders } from './hooks.ts'
import { acceptBodies, BODY_MAX_BYTES, InvalidBody } from './request/body.ts'
import { identifyClient } from './request/client.ts'
import { trustProxies } from './request/client-address.ts'
import { PAGE_SESSION, SESSION, type SessionCookie } from './request/cookies.ts'
import { answerPreflights, cors, logRefusedOrigins, type OriginRules } from './request/cors.ts'
import { CLIENT, COUNTED_LOG, refuse, requestId } from './request/log.ts'
import { METRICS } from './routes/ended-session.ts'

export type ServerDeps = {
  /** Runs what must end before the service does: every handler of a route. */
  track: <T>(operation: () => Promise<T>) => Promise<T>
  /** True once the service has been asked to end. */
  isStopping: () => boolean
  /** True once it refuses requests. */
  isRefusing: () => boolean
  config: Config
  /** Null: plain HTTP for a TLS proxy in front. */
  tls: TlsMaterial | null
  log: FastifyBaseLogger
  metrics: Metrics
}

type Options = {
  /** Which pages of other sites may read the answers; by default none. */
  origins?: OriginRules
  /** By default that of the pages. */
  sessionCookie?: SessionCookie
  /** Requests that come through no proxy: a header of one is forged. */
  isDirect?: (request: FastifyRequest) => boolean
  /** Refuses callers that are not known. */
  admit?: onRequestAsyncHookHandler
  /** The longest part of an address that a route takes as its parameter. */
  maxParamLength?: number
  /** Answers requests for addresses that no route has. */
  notFound?: (request: FastifyRequest, reply: FastifyReply) => FastifyReply
  /** The page that answers a form whose body did not arrive in time; null for other requests. */
  toTimeoutPage?: (request: IncomingMessage) => RawPage | null
}

/** Call `refuseOtherMethods` once all routes have been added. */
export function createServer(
  { config, tls, log, metrics, isStopping, isRefusing, track }: ServerDeps,
  { origins, admit, maxParamLength, notFound, toTimeoutPage, ...options }: Options,
): { app: FastifyInstance; refuseOtherMethods: () => void } {
  const proxies = trustProxies(config.trustProxy)
  const headers = protectiveHeaders(config)
  const serverOptions = { ...TIMEOUTS, requireHostHeader: false }
  const app = Fastify({
    ...(tls
      ? { https: { ...serverOptions, ...tls, ...TLS_OPTIONS } }
      : { http: serverOptions, https: null }),
    requestTimeout: TIMEOUTS.requestTimeout,
    keepAliveTimeout: TIMEOUTS.keepAliveTimeout,
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    // logOf() adds the request's id to each line; a child logger would only cost time.
    childLoggerFactory: parent => parent,
    genReqId: requestId,
    bodyLimit: BODY_MAX_BYTES,
    routerOptions: { ...(maxParamLength && { maxParamLength }) },
    return503OnClosing: false,
    schemaErrorFormatter: () => new InvalidBody(),
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        allErrors: true,
        // Tests validate the schemas in the OpenAPI documents. Doing so at every start would take 10 ms.
        validateSchema: false,
      },
    },
    clientErrorHandler(error, socket) {
      if (isPlainHttp(error) && proxies.isTrusted(socket.remoteAddress ?? '')) {
        metrics.plainHttpReceived()
      }
      answerClientError(error, socket, headers, toTimeoutPage)
    },
    frameworkErrors: (error, request, reply) => {
      addHeaders(reply, headers)
      // No id or email is this long, so nothing exists at this address.
      const isTooLong = error.code === 'FST_ERR_MAX_PARAM_LENGTH'
      refuse(request, reply, isTooLong ? 'NOT_FOUND' : 'BAD_REQUEST')
    },
  })
  answerUnrouted(app.server, headers)
  const countedLog = createCountedLog(log)
  limitConnections(app.server, proxies, {}, ({ ip, ...limited }) => {
    metrics.connectionLimited(limited.limit, limited.result)
    countedLog.write('warn', clientGroup(ip), { ip }, { event: 'connection.limited', ...limited })
  })
  for (const method of METHODS) {
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method)
  }

  acceptBodies(app)
  app.setErrorHandler(handleError)
  app.setNotFoundHandler(notFound ?? ((_request, reply) => sendFailure(reply, 'NOT_FOUND')))

  app.decorate(SESSION, options.sessionCookie ?? PAGE_SESSION)
  app.decorate(COUNTED_LOG, countedLog)
  app.decorate(METRICS, metrics)
  app.decorateRequest(CLIENT, null)
  /** The methods of the routes that serve, without those that refuse other methods. */
  const methodsByUrl = new Map<string, string[]>()
  const isServed = (method: string, url: string) => methodsByUrl.get(url)?.includes(method) ?? false

  // In the order in which they run.
  app.addHook('onRequest', setHeaders(headers, isStopping))
  if (origins) app.addHook('onRequest', cors(origins))
  app.addHook('onRequest', refuseBadFraming)
  app.addHook('onRequest', identifyClient(proxies, options.isDirect))
  if (origins) app.addHook('onRequest', answerPreflights)
  app.addHook('onRequest', refuseWhileDraining(isRefusing))
  if (admit) app.addHook('onRequest', admit)
  if (origins) app.addHook('onSend', logRefusedOrigins)
  app.addHook('preHandler', refuseWhileDraining(isRefusing, true))
  app.addHook('onResponse', countAnswers(metrics, isServed))
  app.addHook('onClose', async () => countedLog.flush())

  let isComplete = false
  app.addHook('onRoute', route => {
    if (isComplete) return
    const { url, method, handler } = route
    methodsByUrl.set(url, [...(methodsByUrl.get(url) ?? []), method].flat())
    route.handler = (request, reply) => track(async () => handler.call(app, request, reply))
  })
  return {
    app,
    refuseOtherMethods() {
      isComplete = true
      for (const [url, allowed] of methodsByUrl) {
        const refuse = async (_request: FastifyRequest, reply: FastifyReply) =>
          sendFailure(reply.header('Allow', allowed.join(', ')), 'METHOD_NOT_ALLOWED')
        const method = app.supportedMethods.filter(name => !allowed.includes(name))
        // A hook, so that it answers before the body is read.
        app.route({ method, url, onRequest: refuse, handler: refuse })
      }
    },
  }
}
