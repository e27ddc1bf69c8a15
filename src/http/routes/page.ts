// GET /, GET /login and the files behind them.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { chooseEncoding, chooseLanguage } from '../page/negotiation.ts'
import type { Content, Page } from '../page/page.ts'
import { acceptedReturnTo, originOf } from '../page/return-to.ts'
import { logRefused } from '../request/log.ts'

const DEFAULT_LANGUAGE = 'en'
/** Everything from here, nothing inline; no exception to it, ever. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "object-src 'none'",
  "require-trusted-types-for 'script'",
].join('; ')
/** The address changes with the content. */
const FOR_EVER = 'public, max-age=31536000, immutable'

export function pageRoute({ documents }: Page, returnToOrigins: readonly string[]) {
  const languages = [...documents.keys()]
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { headers, query } = request
    const language = chooseLanguage(headers['accept-language'], languages, DEFAULT_LANGUAGE)
    const document = documents.get(language)
    if (!document) throw new Error(`no page in ${language}`)
    reply.header('Content-Security-Policy', CONTENT_SECURITY_POLICY)
    addVary(reply, 'Accept-Language')
    const { return_to: asked } = query as { return_to?: unknown }
    const returnTo = acceptedReturnTo(asked, returnToOrigins)
    if (asked !== undefined && returnTo === null) logRefused(request, 'return-to', originOf(asked))
    if (returnTo === null) return sendContent(request, reply, document.content)
    // Not compressed: it holds what the caller chose, and would cost time with each request.
    return reply.type(document.content.type).send(document.withReturnTo(returnTo))
  }
}

/** Under the policy of all other answers: a logo opened on its own runs nothing. */
export function assetRoute(content: Content) {
  return async (request: FastifyRequest, reply: FastifyReply) =>
    sendContent(request, reply.header('Cache-Control', FOR_EVER), content)
}

function sendContent(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  { type, bytes, encoded }: Content,
): FastifyReply {
  addVary(reply, 'Accept-Encoding')
  const encoding = chooseEncoding(headers['accept-encoding'])
  const compressed = encoding && encoded[encoding]
  if (compressed) reply.header('Content-Encoding', encoding)
  return reply.type(type).send(compressed || bytes)
}

function addVary(reply: FastifyReply, name: string): void {
  const others = reply.getHeader('Vary')
  reply.header('Vary', others ? `${others}, ${name}` : name)
}
