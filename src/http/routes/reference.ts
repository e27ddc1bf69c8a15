// GET /openapi.json and GET /docs: the description of the API, for programs and for people.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { toDocument } from '../openapi/document.ts'
import { NOT_DESCRIBED } from '../openapi/operation.ts'
import { toHtml } from '../openapi/reference.ts'
import { type Content, compressText, type Page } from '../page/page.ts'
import { PAGE_POLICY, sendContent } from './page.ts'

/** It changes with the version of the service only. */
const CACHE_CONTROL = 'public, max-age=300'

export function addReference(app: FastifyInstance, page: Page): void {
  let contents: { json: Content; html: Content }
  // The routes are complete only when the app is ready.
  app.addHook('onReady', async () => {
    const document = toDocument(app)
    contents = {
      json: compressText('application/json', JSON.stringify(document)),
      html: page.toReferencePage(toHtml(document)),
    }
  })
  app.get('/openapi.json', NOT_DESCRIBED, async (request: FastifyRequest, reply: FastifyReply) =>
    sendContent(request, reply.header('Cache-Control', CACHE_CONTROL), contents.json),
  )
  app.get('/docs', NOT_DESCRIBED, async (request: FastifyRequest, reply: FastifyReply) => {
    reply.header('Cache-Control', CACHE_CONTROL).header('Content-Security-Policy', PAGE_POLICY)
    return sendContent(request, reply, contents.html)
  })
}
