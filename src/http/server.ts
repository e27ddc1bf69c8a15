// What the public app and the admin app share: the server's options and limits, the first hooks, and the
// answers to requests that no route takes.
import { METHODS } from 'node:http'
import { parse as parseQuery } from 'node:querystring'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
  type onRequestHookHandler,
} from 'fastify'
import type { Config } from '../config/config.ts'
import { createCountedLog } from '../log/counted-log.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { sendFailure } from './answer/envelope.ts'
import { addHeaders } from './answer/headers.ts'
import { createRequestCounter, limitConnections, TIMEOUTS } from './connection/connections.ts'
import { createProtocolErrors } from './connection/protocol-errors.ts'
import { TLS_OPTIONS, type TlsMaterial } from './connection/tls.ts'
import { handleError } from './errors.ts'
import { NOT_DESCRIBED } from './openapi/operation.ts'
import { acceptJsonOnly, BODY_MAX_BYTES, InvalidBody } from './request/body.ts'
import { identifyClient } from './request/client.ts'
import { trustProxies } from './request/client-address.ts'
import { checkFraming } from './request/framing.ts'
import { CLIENT, COUNTED_LOG, logOf, refuse, requestId } from './request/log.ts'
import { METRICS } from './routes/ended-session.ts'

export type ServerDeps = {
  config: Config
  /** Null: plain HTTP for a TLS proxy in front. */
  tls: TlsMaterial | null
  log: FastifyBaseLogger
  metrics: Metrics
  /** Makes the shutdown wait for an operation, even if its caller has disconnected. */
  track: <T>(operation: () => Promise<T>) => Promise<T>
  /** True once the service has been asked to end. Each answer then closes its connection. */
  isStopping: () => boolean
  /** True once the drain delay is over. */
  isRefusing: () => boolean
}

type Options = {
  /** Runs when the headers of the answer are set, before the request is checked. */
  onFirst?: onRequestHookHandler
  /** Of the part of an address that a route takes as its parameter. */
  maxParamLength?: number
  /** Answers requests for addresses that no route has. */
  notFound?: (request: FastifyRequest, reply: FastifyReply) => FastifyReply
}

const RETRY_DRAINING_SECONDS = 5
/** Enough for a `return_to` with every character escaped. A longer query is ignored. */
const QUERY_MAX_CHARACTERS = 8_192
const QUERY_MAX_PARAMETERS = 20

/** Call `refuseOtherMethods` once all routes have been added. */
export function createServer(
  { config, tls, log, metrics, isStopping, isRefusing }: ServerDeps,
  { onFirst, maxParamLength, notFound }: Options,
): { app: FastifyInstance; refuseOtherMethods: () => void } {
  const protocolErrors = createProtocolErrors()
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
    routerOptions: {
      ...(maxParamLength && { maxParamLength }),
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
      // No id or email is this long, so nothing exists at this address.
      const isTooLong = error.code === 'FST_ERR_MAX_PARAM_LENGTH'
      refuse(request, reply, isTooLong ? 'NOT_FOUND' : 'BAD_REQUEST')
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
  app.setNotFoundHandler(notFound ?? ((_request, reply) => sendFailure(reply, 'NOT_FOUND')))

  const countedLog = createCountedLog(log)
  app.decorate(COUNTED_LOG, countedLog)
  app.addHook('onClose', async () => countedLog.flush())
  app.decorate(METRICS, metrics)
  /** Of the routes that serve, without those that refuse other methods. */
  const methodsByUrl = new Map<string, string[]>()
  app.addHook('onResponse', (request, { statusCode: status, elapsedTime }, done) => {
    const { method, routeOptions } = request
    const route = routeOptions.url ?? 'none'
    const isServed = methodsByUrl.get(route)?.includes(method)
    // Callers choose methods and addresses: each combination that no route serves would add its own series.
    if (isServed) metrics.answered(method, route, status, elapsedTime)
    else metrics.answered('other', 'other', status, elapsedTime)
    if (log.level === 'debug' || log.level === 'trace') {
      const durationMs = Math.round(elapsedTime)
      logOf(request).debug({ event: 'request.answered', method, route, status, durationMs })
    }
    done()
  })
  app.decorateRequest(CLIENT, null)
  app.addHook('onRequest', (request, reply, done) => {
    addHeaders(request, reply)
    if (isLastRequest(request.raw) || isStopping()) reply.header('Connection', 'close')
    done()
  })
  if (onFirst) app.addHook('onRequest', onFirst)
  app.addHook('onRequest', (request, reply, done) => {
    const failure = checkFraming(request.raw)
    if (failure) refuse(request, reply.header('Connection', 'close'), failure)
    else done()
  })
  app.addHook('onRequest', identifyClient(proxies))
  app.addHook('onRequest', (request, reply, done) => {
    if (!isRefusing()) return done()
    refuse(request, reply, 'SERVICE_UNAVAILABLE', { retryAfterSeconds: RETRY_DRAINING_SECONDS })
  })

  let isComplete = false
  app.addHook('onRoute', ({ url, method }) => {
    if (isComplete) return
    const methods = [...(methodsByUrl.get(url) ?? []), method].flat()
    methodsByUrl.set(url, methods)
  })
  return {
    app,
    refuseOtherMethods() {
      isComplete = true
      for (const [url, allow] of methodsByUrl) refuseAllBut(app, url, allow)
    },
  }
}

/** Answers before the body is read. */
function refuseAllBut(app: FastifyInstance, url: string, allow: string[]): void {
  const refuse = async (_request: FastifyRequest, reply: FastifyReply) =>
    sendFailure(reply, 'METHOD_NOT_ALLOWED', { allow })
  const method = app.supportedMethods.filter(name => !allow.includes(name))
  app.route({ method, url, ...NOT_DESCRIBED, onRequest: refuse, handler: refuse })
}
