// The id that ties a request, its answer and its log lines together.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isUuid } from '../../identifiers.ts'

/** The caller's own, if it is a UUID; anything else could carry text into the logs. */
export function requestId({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  return isUuid(given) ? given : randomUUID()
}
