// GET /openapi.json and GET /docs: the description of an API, for programs and for people.
import type { FastifyInstance, FastifyReply, RouteOptions } from 'fastify'
import { type ApiDescription, toDocument } from '../openapi/document.ts'
import { NOT_DESCRIBED } from '../openapi/operation.ts'
import { toHtml } from '../openapi/reference.ts'
import { referencePage } from '../page/layout.ts'
import { compressText, type Page } from '../page/page.ts'
import { PAGE_HEADERS, sendContent } from './page.ts'

/** Describes the routes that are added after it. By default no cache may keep the description. */
export function addReference(
  app: FastifyInstance,
  page: Page,
  api: ApiDescription,
  cacheControl?: string,
): void {
  const routes: RouteOptions[] = []
  app.addHook('onRoute', route => {
    if (!route.schema?.hide) routes.push(route)
  })
  const make = async () => {
    const document = await toDocument(routes, api)
    return {
      json: compressText('application/json', JSON.stringify(document)),
      html: compressText('text/html', referencePage(page, toHtml(document, api.failures))),
    }
  }
  let made: ReturnType<typeof make> | null = null
  /** Makes them for the first reader, because most processes never have one. */
  const reference = () => {
    made ??= make().catch(error => {
      made = null
      throw error
    })
    return made
  }
  const cached = (reply: FastifyReply) =>
    cacheControl ? reply.header('Cache-Control', cacheControl) : reply
  app.get('/openapi.json', NOT_DESCRIBED, async (request, reply) => {
    const { json } = await reference()
    return sendContent(request, cached(reply), json)
  })
  app.get('/docs', NOT_DESCRIBED, async (request, reply) => {
    const { html } = await reference()
    return sendContent(request, cached(reply).headers(PAGE_HEADERS), html)
  })
}
