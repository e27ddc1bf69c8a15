// GET /openapi.json and GET /docs: the description of an API, for programs and for people.
import type { FastifyInstance, FastifyReply } from 'fastify'
import { type ApiDescription, toDocument } from '../openapi/document.ts'
import { NOT_DESCRIBED } from '../openapi/operation.ts'
import { toHtml } from '../openapi/reference.ts'
import { type Content, compressText, type Page } from '../page/page.ts'
import { PAGE_HEADERS, sendContent } from './page.ts'

/** By default no cache may keep them. */
export function addReference(
  app: FastifyInstance,
  page: Page,
  api: ApiDescription,
  cacheControl?: string,
): void {
  let made: { json: Content; html: Content } | null = null
  /** Makes them for the first reader, because most processes never have one. */
  const reference = () => {
    if (made) return made
    const document = toDocument(app, api)
    const json = compressText('application/json', JSON.stringify(document))
    const html = page.toReferencePage(toHtml(document, api.failures))
    made = { json, html }
    return made
  }
  const cached = (reply: FastifyReply) =>
    cacheControl ? reply.header('Cache-Control', cacheControl) : reply
  app.get('/openapi.json', NOT_DESCRIBED, async (request, reply) =>
    sendContent(request, cached(reply), reference().json),
  )
  app.get('/docs', NOT_DESCRIBED, async (request, reply) =>
    sendContent(request, cached(reply).headers(PAGE_HEADERS), reference().html),
  )
}
