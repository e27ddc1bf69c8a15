// GET /openapi.json and GET /docs: the description of an API, for programs and for people.
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type ApiDescription, toDocument } from '../openapi/document.ts'
import { toHtml } from '../openapi/reference.ts'
import { referencePage } from '../page/layout.ts'
import { compressText, type Page } from '../page/page.ts'
import { sendContent } from './asset.ts'
import { PAGE_HEADERS } from './page.ts'

/** Describes the routes that are added after it. By default no cache may keep the description. */
export function addReference(
  app: FastifyInstance,
  page: Page,
  api: ApiDescription,
  cacheControl = 'no-store',
): void {
  const routes: RouteOptions[] = []
  app.addHook('onRoute', route => {
    routes.push(route)
  })
  const make = () => {
    const document = toDocument(routes, api)
    return {
      json: compressText('application/json', JSON.stringify(document)),
      html: compressText('text/html', referencePage(page, toHtml(document))),
    }
  }
  let made: ReturnType<typeof make> | null = null
  /** Made for the first reader, because most processes never have one. */
  const send = (request: FastifyRequest, reply: FastifyReply, kind: 'json' | 'html') => {
    made ??= make()
    return sendContent(request, reply.header('Cache-Control', cacheControl), made[kind])
  }
  app.get('/openapi.json', async (request, reply) => send(request, reply, 'json'))
  app.get('/docs', async (request, reply) => send(request, reply.headers(PAGE_HEADERS), 'html'))
}
