// GET /, GET /login, GET /.well-known/change-password, the files that the page loads, and the answer to other
// addresses.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../config/config.ts'
import { sendFailure } from '../answer/envelope.ts'
import { chooseEncoding, chooseLanguage } from '../page/negotiation.ts'
import type { Content, Page } from '../page/page.ts'
import { acceptedCallback, acceptedReturnTo, originOf } from '../page/return-to.ts'
import { sessionCookieOf } from '../request/cookies.ts'
import { logRefused } from '../request/log.ts'

const DEFAULT_LANGUAGE = 'en'
export const PAGE_HEADERS = {
  // A page loads from this origin only, without inline scripts and styles. This must not get exceptions.
  'content-security-policy': [
    "default-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "object-src 'none'",
    "require-trusted-types-for 'script'",
  ].join('; '),
  // A site that opens the login page in a window gets no handle to it.
  'cross-origin-opener-policy': 'same-origin',
  // Other hosts of the same domain share no process memory or document.domain with the page.
  'origin-agent-cluster': '?1',
}
/** A changed file gets another address. */
const FOR_EVER = 'public, max-age=31536000, immutable'

type Destinations = Pick<Config, 'returnToOrigins' | 'codeCallbacks'>

export function pageRoute(page: Page, destinations: Destinations) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { return_to: asked } = request.query as { return_to?: unknown }
    const document = chooseDocument(page, request, reply)
    const hasCookie = sessionCookieOf(request) !== null
    const { content, withReturnTo } = hasCookie ? document.withoutForm : document.withForm
    const returnTo = returnToOf(request, destinations)
    if (asked !== undefined && returnTo === null) logRefused(request, 'return-to', originOf(asked))
    if (returnTo === null) return sendContent(request, reply, content)
    // This document is not compressed: it differs from request to request, so that would cost time each time.
    return reply.type(content.type).send(withReturnTo(returnTo))
  }
}

/** With a challenge, the application wants a code: the list of origins gives none. */
function returnToOf({ query }: FastifyRequest, { returnToOrigins, codeCallbacks }: Destinations) {
  const { return_to: asked, challenge } = query as { return_to?: unknown; challenge?: unknown }
  if (challenge === undefined) return acceptedReturnTo(asked, returnToOrigins)
  return acceptedCallback(asked, challenge, codeCallbacks) === null ? null : String(asked)
}

/** Password managers open this address of any site when a password should be changed. */
export async function changePasswordPageRoute(_: FastifyRequest, reply: FastifyReply) {
  return reply.redirect('/login#change-password')
}

/** A browser that shows the answer to a user gets a page; all others get the envelope. */
export function notFoundRoute(page: Page) {
  return (request: FastifyRequest, reply: FastifyReply) => {
    const isForUser = request.method === 'GET' && request.headers.accept?.includes('text/html')
    if (!isForUser) return sendFailure(reply, 'NOT_FOUND')
    const { notFound } = chooseDocument(page, request, reply)
    return sendContent(request, reply.code(404), notFound)
  }
}

function chooseDocument({ documents }: Page, request: FastifyRequest, reply: FastifyReply) {
  const { lang } = request.query as { lang?: unknown }
  const languages = [...documents.keys()]
  const language =
    languages.find(one => one === lang) ??
    chooseLanguage(request.headers['accept-language'], languages, DEFAULT_LANGUAGE)
  const document = documents.get(language)
  if (!document) throw new Error(`no page in ${language}`)
  reply.headers(PAGE_HEADERS)
  addVary(reply, 'Accept-Language')
  return document
}

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

function addVary(reply: FastifyReply, name: string): void {
  const others = reply.getHeader('Vary')
  reply.header('Vary', others ? `${others}, ${name}` : name)
}
