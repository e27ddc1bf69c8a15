// The OpenAPI document, generated from the schemas of the routes.
import { createRequire } from 'node:module'
import { isDeepStrictEqual } from 'node:util'
import type Swagger from '@fastify/swagger'
import Fastify, { type RouteOptions } from 'fastify'
import packageJson from '../../../package.json' with { type: 'json' }
import type { FailureCode } from '../answer/envelope.ts'
import { headerRef, type Occasions, toResponses } from './failures.ts'
import { type Document, type JsonSchema, successOf } from './format.ts'

const require = createRequire(import.meta.url)
const { version, license } = packageJson

/** Linters demand both. The software has no licence that SPDX lists, and no author knows the deployment. */
const INFO = {
  license: { name: license, identifier: `LicenseRef-${license}` },
  contact: { name: 'The operator of this service' },
}

/** Every operation has them. */
const SHARED_COMPONENTS = {
  parameters: {
    'X-Request-ID': {
      name: 'X-Request-ID',
      in: 'header',
      description: 'A UUID for the log lines of this request. Any other value is ignored.',
      schema: { type: 'string' as const, format: 'uuid' },
    },
  },
  headers: {
    'X-Request-ID': {
      description: 'The request’s id, which is in its log lines: yours, or a new one.',
      required: true,
      schema: { type: 'string' as const, format: 'uuid' },
    },
    'Retry-After': {
      description: 'Seconds to wait.',
      required: true,
      schema: { type: 'string' as const, pattern: '^[0-9]+$' },
    },
    'WWW-Authenticate': {
      description: 'With `error="invalid_token"` if an invalid token was sent (RFC 6750).',
      required: true,
      schema: { type: 'string' as const, pattern: '^Bearer realm="login"' },
    },
  },
}

type SecurityScheme = { description: string } & (
  | { type: 'http'; scheme: string; bearerFormat?: string }
  | { type: 'apiKey'; in: string; name: string }
)

/** What a document says besides its operations. The same for every deployment: it tells nothing of the configuration. */
export type ApiDescription = {
  title: string
  description: string
  tags: Document['tags']
  securitySchemes: Record<string, SecurityScheme>
  /** Those of every operation. */
  failures: FailureCode[]
  when: Occasions
}

/** Describes the operations, with what they share: failures, and the request's id. */
export async function toDocument(routes: RouteOptions[], api: ApiDescription): Promise<Document> {
  const document = await describeRoutes(routes, api)
  const { components } = document
  components.schemas = {}
  components.responses = {}
  moveNamed(document.paths, components.schemas)
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      if (!operation.operationId) throw new Error(`${method} ${path} is not described`)
      const { 'x-failures': own = [], requestBody, parameters = [], responses } = operation
      delete operation['x-failures']
      const ofBody: FailureCode[] = method === 'get' ? [] : ['PAYLOAD_TOO_LARGE']
      const failures = [...own, ...ofBody, ...api.failures]
      const { response } = successOf(operation)
      operation.parameters = [...parameters, { $ref: '#/components/parameters/X-Request-ID' }]
      response.headers = { ...response.headers, ...headerRef('X-Request-ID') }
      Object.assign(responses, toResponses(failures, api.when, components.responses))
      const body = requestBody?.content['application/json']?.schema
      // `{}` stands for a credential in the body, which another one can replace.
      const isReplaceable = operation.security.some(isEmpty)
      // A body without required fields may be left out too.
      if (requestBody && (isReplaceable || !body?.required?.length)) requestBody.required = false
      if (isEmpty(body?.properties ?? {})) delete operation.requestBody
    }
  }
  return document
}

/**
 * Loads the library only here, because most processes never have a reader. Unlike `import`, `require` tries again after
 * it has failed, for example because there were no file descriptors.
 */
async function describeRoutes(routes: RouteOptions[], api: ApiDescription): Promise<Document> {
  const { title, description, tags, securitySchemes } = api
  const swagger: typeof Swagger = require('@fastify/swagger')
  const app = Fastify({ exposeHeadRoutes: false })
  // This app answers no requests.
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => JSON.stringify)
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title, version, description, ...INFO },
      servers: [{ url: '/' }],
      tags,
      components: { securitySchemes, ...SHARED_COMPONENTS },
    },
    convertConstToEnum: false,
  })
  for (const { method, url, schema = {} } of routes) {
    app.route({ method, url, schema, handler: () => null })
  }
  await app.ready()
  return structuredClone(app.swagger()) as unknown as Document
}

const isEmpty = (value: object) => Object.keys(value).length === 0

/** Puts references in the place of schemas that have a name. */
function moveNamed(part: object, schemas: Record<string, JsonSchema>): void {
  for (const [key, value] of Object.entries(part)) {
    if (value === null || typeof value !== 'object') continue
    moveNamed(value, schemas)
    const { title, ...schema } = value
    // A schema may also describe a field of this name.
    if (typeof title !== 'string') continue
    schemas[title] ??= schema
    if (!isDeepStrictEqual(schemas[title], schema))
      throw new Error(`two schemas are called ${title}`)
    Object.assign(part, { [key]: { $ref: `#/components/schemas/${title}` } })
  }
}
