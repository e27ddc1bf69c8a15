// GET /.well-known/ended-sessions: the sessions whose access tokens must no longer be accepted.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { digestOf } from '../../identifiers.ts'
import type { EndedFeed } from '../../session/ended-feed.ts'
import { named, object, operation, whole } from '../openapi/operation.ts'
import { ID } from '../openapi/schemas.ts'
import { refuse } from '../request/log.ts'

const CURSOR = {
  type: 'string',
  // Milliseconds, of which numbers with up to 15 digits are exact.
  pattern: '^\\d{1,15}$',
  examples: ['1767225600000'],
}
const ETAG = { type: 'string', description: 'Send it as `If-None-Match` with the same `after`.' }

export const ENDED_FEED_OPERATION = operation({
  operationId: 'listEndedSessions',
  tags: ['Tokens'],
  summary: 'List the sessions that have ended early',
  description:
    'For services that verify access tokens: refuse a token whose `sid` is listed. Without the envelope. Sessions are listed for 65 minutes after a logout, or after a user, an administrator or the service ended them; expired ones are not listed. Send `next` as `after` to get what is new; an answer repeats the last 10 seconds before it. Ask every 2 seconds, and keep each id for 65 minutes. After a 400, ask again without `after`. If nothing is new since the `ETag` in `If-None-Match`, the answer is a 304.',
  security: [],
  querystring: object(
    { after: { ...CURSOR, description: '`next` of the previous answer. By default: all.' } },
    [],
  ),
  response: {
    200: {
      'x-response-description': 'The ids of the sessions.',
      headers: { ETag: ETAG },
      ...named(
        'EndedSessions',
        whole({
          ended: { type: 'array', items: ID },
          next: { ...CURSOR, description: 'To be sent as `after`.' },
        }),
      ),
    },
    304: {
      'x-response-description': 'Nothing is new.',
      headers: { ETag: ETAG },
      type: 'null',
    },
  },
  options: { attachValidation: true },
})

export function endedFeedRoute(feed: EndedFeed) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { after } = request.query as { after?: string }
    const found = request.validationError
      ? null
      : await feed.list(after === undefined ? null : Number(after))
    if (!found) return refuse(request, reply, 'BAD_REQUEST', { fields: ['after'] })
    const body = JSON.stringify({ ended: found.ids, next: String(found.nextMs) })
    const etag = `"${digestOf(body).slice(0, 32)}"`
    reply.headers({ 'Cache-Control': 'public, max-age=1', ETag: etag })
    // A proxy that compresses answers marks the tag as weak: W/"…".
    if (request.headers['if-none-match']?.includes(etag)) return reply.code(304).send()
    return reply.type('application/json').send(body)
  }
}
