// The end of a session, for the log and the metrics; and how a route reaches the metrics.
import type { FastifyRequest } from 'fastify'
import type { EndReason, Metrics } from '../../metrics/metrics.ts'
import { logOf } from '../request/log.ts'

export const METRICS = 'metrics'

export function metricsOf(request: FastifyRequest): Metrics {
  return request.server.getDecorator<Metrics>(METRICS)
}

export function reportEnded(
  request: FastifyRequest,
  sessionId: string,
  userId: string,
  reason: EndReason,
): void {
  logOf(request).info({ event: 'session.ended', sessionId, userId, reason })
  metricsOf(request).sessionEnded(reason)
}
