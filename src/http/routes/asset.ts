// GET /assets/…: style sheet, script and logo; and what is sent compressed if the caller takes it.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { chooseEncoding } from '../page/negotiation.ts'
import type { Content } from '../page/page.ts'

/** A changed file gets another address. */
const FOR_EVER = 'public, max-age=31536000, immutable'

/** Has the policy of all other answers, so that an SVG logo opened by itself runs no script. */
export function assetRoute(content: Content) {
  return async (request: FastifyRequest, reply: FastifyReply) =>
    sendContent(request, reply.header('Cache-Control', FOR_EVER), content)
}

export function sendContent(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  { type, bytes, encode }: Content,
): FastifyReply {
  addVary(reply, 'Accept-Encoding')
  const encoding = chooseEncoding(headers['accept-encoding'])
  const compressed = encoding && encode(encoding)
  if (compressed) reply.header('Content-Encoding', encoding)
  return reply.type(type).send(compressed ?? bytes)
}

export function addVary(reply: FastifyReply, name: string): void {
  const others = reply.getHeader('Vary')
  reply.header('Vary', others ? `${others}, ${name}` : name)
}
