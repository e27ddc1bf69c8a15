// Hooks of every request. server.ts lists them, with those of request/, in the order in which they run.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Metrics } from '../metrics/metrics.ts'
import { isFormPost } from './answer/envelope.ts'
import { addHeaders, type ProtectiveHeaders } from './answer/headers.ts'
import { checkFraming } from './request/framing.ts'
import { logOf, refuse } from './request/log.ts'

const RETRY_DRAINING_SECONDS = 5

/** While the service is stopping, each answer closes its connection. */
export function setHeaders(headers: ProtectiveHeaders, isStopping: () => boolean) {
  return (_request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    addHeaders(reply, headers)
    if (isStopping()) reply.header('Connection', 'close')
    done()
  }
}

export function refuseBadFraming(request: FastifyRequest, reply: FastifyReply, done: () => void) {
  const failure = checkFraming(request.raw)
  if (failure) refuse(request, reply.header('Connection', 'close'), failure)
  else done()
}

/** A form is refused after its body is read: the page shows the typed email again. */
export function refuseWhileDraining(isRefusing: () => boolean, isBodyRead = false) {
  return (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    if (!isRefusing() || isFormPost(request) !== isBodyRead) return done()
    refuse(request, reply, 'SERVICE_UNAVAILABLE', { retryAfterSeconds: RETRY_DRAINING_SECONDS })
  }
}

/** Callers choose methods and addresses: each combination that no route serves would add its own series. */
export function countAnswers(
  metrics: Metrics,
  isServed: (method: string, route: string) => boolean,
) {
  return (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    const { method, routeOptions, log } = request
    const { statusCode: status, elapsedTime } = reply
    const route = routeOptions.url ?? 'none'
    if (isServed(method, route)) metrics.answered(method, route, status, elapsedTime)
    else metrics.answered('other', 'other', status, elapsedTime)
    if (log.level === 'debug' || log.level === 'trace') {
      const durationMs = Math.round(elapsedTime)
      logOf(request).debug({ event: 'request.answered', method, route, status, durationMs })
    }
    done()
  }
}
