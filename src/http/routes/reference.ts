// GET /openapi.json and GET /docs: the description of an API, for programs and for people.
import type { FastifyInstance, FastifyReply } from 'fastify'
import { type ApiDescription, toDocument } from '../openapi/document.ts'
import { NOT_DESCRIBED } from '../openapi/operation.ts'
import { toHtml } from '../openapi/reference.ts'
import { type Content, compressText, type Page } from '../page/page.ts'
import { PAGE_POLICY, sendContent } from './page.ts'

/** By default no cache may keep them. */
export function addReference(
  app: FastifyInstance,
  page: Page,
  api: ApiDescription,
  cacheControl?: string,
): void {
  let json: Content
  let html: Content
  // Only now all routes are known.
  app.addHook('onReady', async () => {
    const document = toDocument(app, api)
    json = compressText('application/json', JSON.stringify(document))
    html = page.toReferencePage(toHtml(document, api.failures))
  })
  const cached = (reply: FastifyReply) =>
    cacheControl ? reply.header('Cache-Control', cacheControl) : reply
  app.get('/openapi.json', NOT_DESCRIBED, async (request, reply) =>
    sendContent(request, cached(reply), json),
  )
  app.get('/docs', NOT_DESCRIBED, async (request, reply) =>
    sendContent(request, cached(reply).header('Content-Security-Policy', PAGE_POLICY), html),
  )
}
