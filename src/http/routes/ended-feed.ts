// GET /.well-known/ended-sessions: the sessions whose access tokens must no longer be accepted.
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Cursor, EndedFeed } from '../../session/ended-feed.ts'
import { digestOf } from '../../system/identifiers.ts'
import { header, named, object, operation, whole } from '../openapi/operation.ts'
import { ID } from '../openapi/schemas.ts'
import { refuse } from '../request/log.ts'

const CURSOR = {
  type: 'string',
  // Two times in milliseconds, of which numbers with up to 15 digits are exact, and an id. The last two only between pages.
  pattern: '^\\d{1,15}(\\.\\d{1,15}\\.[\\da-f-]{36})?$',
  examples: ['1767225600000'],
}
const ETAG = header('Send it as `If-None-Match` with the same `after`.')

export const ENDED_FEED_OPERATION = operation({
  operationId: 'listEndedSessions',
  tags: ['Tokens'],
  summary: 'List the sessions that have ended early',
  description:
    'For services that verify access tokens: refuse a token whose `sid` is listed. Without the envelope. Sessions are listed for 65 minutes after a logout, or after a user, an administrator or the service ended them; expired ones are not listed. An answer has at most 10,000 ids. Send `next` as `after` to get what is new, at once if `more` is true, otherwise after 2 seconds. Accept no token before you have had an answer whose `more` is false. Ids may come repeatedly; keep each for 65 minutes. After a 400, ask again without `after`. If nothing is new since the `ETag` in `If-None-Match`, the answer is a 304.',
  security: [],
  querystring: object(
    { after: { ...CURSOR, description: '`next` of the previous answer. By default: all.' } },
    [],
  ),
  response: {
    200: {
      description: 'The ids of the sessions.',
      headers: { ETag: ETAG },
      schema: named(
        'EndedSessions',
        whole({
          ended: { type: 'array', items: ID },
          next: { ...CURSOR, description: 'To be sent as `after`.' },
          more: { type: 'boolean', description: 'Whether to ask for the next page at once.' },
        }),
      ),
    },
    304: { description: 'Nothing is new.', headers: { ETag: ETAG } },
  },
  options: { attachValidation: true },
})

export function endedFeedRoute(feed: EndedFeed) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { after } = request.query as { after?: string }
    const found = request.validationError
      ? null
      : await feed.list(after === undefined ? undefined : parseCursor(after))
    if (!found) return refuse(request, reply, 'BAD_REQUEST', { fields: ['after'] })
    const { page, next } = found
    const rest = `],"next":"${formatCursor(next)}","more":${next.last !== null}}`
    const etag = `"${digestOf([...page.map(({ digest }) => digest), rest].join()).slice(0, 32)}"`
    reply.headers({ 'Cache-Control': 'public, max-age=1', ETag: etag })
    // A proxy that compresses answers marks the tag as weak: W/"…".
    if (request.headers['if-none-match']?.includes(etag)) return reply.code(304).send()
    const blocks = page.map(({ json }, i) => (i === 0 ? json.subarray(1) : json))
    const parts = [Buffer.from('{"ended":['), ...blocks, Buffer.from(rest)]
    const bytes = parts.reduce((sum, { length }) => sum + length, 0)
    // As a stream, so that a caller that does not read holds only a part of it in memory.
    reply.type('application/json; charset=utf-8').header('Content-Length', bytes)
    return reply.send(Readable.from(parts))
  }
}

function parseCursor(text: string): Cursor {
  const [seenMs, endedMs, id] = text.split('.')
  const last = id === undefined ? null : { id, endedAt: new Date(Number(endedMs)) }
  return { seenMs: Number(seenMs), last }
}

function formatCursor({ seenMs, last }: Cursor): string {
  return last ? `${seenMs}.${last.endedAt.getTime()}.${last.id}` : String(seenMs)
}
