// GET /openapi.json and GET /docs: the description of the API, for programs and for people.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { toDocument } from '../openapi/document.ts'
import { toHtml } from '../openapi/reference.ts'
import { type Content, compressText, type Page } from '../page/page.ts'
import { PAGE_POLICY, sendContent } from './page.ts'

/** It changes only with the version of the service and its brand. */
const CACHE_CONTROL = 'public, max-age=300'

type Description = { json: Content; html: Content }

/** The result may be called once the app is ready, because only then all routes are known. */
export function prepareDescription(app: FastifyInstance, page: Page): () => Description {
  let description: Description
  app.addHook('onReady', async () => {
    const document = toDocument(app)
    description = {
      json: compressText('application/json', JSON.stringify(document)),
      html: page.toReferencePage(toHtml(document)),
    }
  })
  return () => description
}

export function openapiRoute(description: () => Description) {
  return async (request: FastifyRequest, reply: FastifyReply) =>
    sendContent(request, reply.header('Cache-Control', CACHE_CONTROL), description().json)
}

export function referenceRoute(description: () => Description) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    reply.header('Cache-Control', CACHE_CONTROL).header('Content-Security-Policy', PAGE_POLICY)
    return sendContent(request, reply, description().html)
  }
}
