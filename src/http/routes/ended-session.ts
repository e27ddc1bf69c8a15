// The end of a session, for the log and the metrics.
import type { FastifyRequest } from 'fastify'
import type { EndReason, Metrics } from '../../metrics/metrics.ts'
import { logOf } from '../request/log.ts'

export const METRICS = 'metrics'

export function reportEnded(
  request: FastifyRequest,
  sessionId: string,
  userId: string,
  reason: EndReason,
): void {
  logOf(request).info({ event: 'session.ended', sessionId, userId, reason })
  request.server.getDecorator<Metrics>(METRICS).sessionEnded(reason)
}
