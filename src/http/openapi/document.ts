// The OpenAPI document, made of what the routes say of themselves.
import type { RouteOptions } from 'fastify'
import packageJson from '../../../package.json' with { type: 'json' }
import { EMAIL_MAX_LENGTH } from '../../login/credentials.ts'
import {
  type FailureCode,
  failureText,
  SPECIFIED_RETRY_AFTER_SECONDS,
  statusOf,
} from '../answer/envelope.ts'
import { BODY_MAX_BYTES } from '../request/body.ts'
import { QUERY_MAX_CHARACTERS } from '../request/framing.ts'
import { FACTOR_FLAW_MESSAGES } from '../routes/factor-flaw.ts'
import { FLAW_MESSAGES } from '../routes/new-password.ts'
import {
  type Described,
  type Header,
  header,
  type JsonSchema,
  object,
  text,
  whole,
} from './operation.ts'
import { ID } from './schemas.ts'

/** What a document says besides its operations. The same for every deployment: it tells nothing of the configuration. */
export type ApiDescription = {
  title: string
  description: string
  tags: { name: string; description: string }[]
  securitySchemes: Record<string, { type: string; description: string; [field: string]: string }>
  /** Those of every operation. */
  failures: FailureCode[]
  /** When each code is sent. */
  when: Partial<Record<FailureCode, string>>
}

export type Document = ReturnType<typeof toDocument>
export type Operation = ReturnType<typeof toOperation>
export type Response = ReturnType<typeof toResponse>

const REQUEST_ID = header('For the log. A value that is no UUID is replaced.', ID)

/** Describes the operations among the routes. */
export function toDocument(routes: RouteOptions[], api: ApiDescription) {
  const { title, description, tags, securitySchemes } = api
  const { version, license } = packageJson
  const paths: Record<string, Record<string, Operation>> = {}
  const responses: Record<string, Response> = {}
  for (const { method, url, config } of routes) {
    const { described } = Object(config)
    // Fastify adds a HEAD route to each GET route.
    if (!described || method === 'HEAD') continue
    const path = url.replace(/:(\w+)/g, '{$1}')
    const name = String(method).toLowerCase()
    paths[path] = { ...paths[path], [name]: toOperation(described, name, api, responses) }
  }
  const schemas: Record<string, JsonSchema> = {}
  return {
    openapi: '3.1.0',
    info: {
      ...{ title, version, description },
      // Linters demand both. SPDX does not list the licence, and no author knows the deployment.
      license: { name: license, identifier: `LicenseRef-${license}` },
      contact: { name: 'The operator of this service' },
    },
    servers: [{ url: '/' }],
    tags,
    paths: moveNamed(paths, schemas),
    components: { schemas, responses, securitySchemes },
  }
}

function toOperation(
  { params, querystring, body, response, failures = [], ...words }: Described,
  method: string,
  api: ApiDescription,
  components: Record<string, Response>,
) {
  const responses: Record<string, Response | { $ref: string }> = {}
  for (const [status, { description, headers = {}, schema }] of Object.entries(response)) {
    responses[status] = toResponse(description, headers, schema && { schema })
  }
  const ofBody: FailureCode[] = method === 'get' ? [] : ['PAYLOAD_TOO_LARGE']
  const byStatus = Object.groupBy([...failures, ...ofBody, ...api.failures], statusOf)
  for (const [status, codes = []] of Object.entries(byStatus)) {
    const name = codes.map(toTypeName).join('Or')
    components[name] ??= toFailure(Number(status), codes, api.when)
    responses[status] = { $ref: `#/components/responses/${name}` }
  }
  // An empty object among the credentials stands for one in the body, which the others can replace.
  const isReplaceable = words.security.some(way => Object.keys(way).length === 0)
  const required = !isReplaceable && Boolean(body?.required?.length)
  const schema = withEnds(body, BODY_MAX_BYTES)
  const requestBody = { required, content: { 'application/json': { schema } } }
  return {
    ...words,
    parameters: [
      ...toParameters('path', withEnds(params, EMAIL_MAX_LENGTH)),
      ...toParameters('query', withEnds(querystring, QUERY_MAX_CHARACTERS)),
      { name: 'X-Request-ID', in: 'header', ...REQUEST_ID },
    ],
    ...(Object.keys(body?.properties ?? {}).length > 0 && { requestBody }),
    responses,
  }
}

function toParameters(place: string, { properties = {}, required = [] }: JsonSchema) {
  return Object.entries(properties).map(([name, { description = '', ...schema }]) => {
    return { name, in: place, description, required: required.includes(name), schema }
  })
}

/**
 * Clients and gateways want to know the greatest length of a text. Only the document tells it: a request is not validated
 * by it, because an email or password that is too long gets the same answer, after the same work, as any other.
 */
function withEnds(schema: JsonSchema | undefined, maxLength: number): JsonSchema {
  const ended = Object.entries(schema?.properties ?? {}).map(([name, field]) => {
    if (field.properties) return [name, withEnds(field, maxLength)]
    return [name, field.type === 'string' && !field.enum ? { maxLength, ...field } : field]
  })
  return { ...schema, properties: Object.fromEntries(ended) }
}

type Body = { schema: JsonSchema; examples?: Record<string, { summary: string; value: object }> }

function toResponse(description: string, own: Record<string, Header>, body?: Body) {
  const headers = { ...own, 'X-Request-ID': { ...REQUEST_ID, required: true } }
  return { description, headers, ...(body && { content: { 'application/json': body } }) }
}

/** INVALID_TOKEN becomes InvalidToken: generators make the names of types from those of components. */
function toTypeName(code: FailureCode): string {
  return code.toLowerCase().replace(/(?:^|_)(\w)/g, (_, letter) => letter.toUpperCase())
}

function toFailure(status: number, codes: FailureCode[], when: ApiDescription['when']): Response {
  const error = {
    // An enumeration, so that generated clients know the codes of each operation.
    code: text('For programs. It does not change.', { enum: codes }),
    message: text('For people.'),
    fields: { type: 'array', items: text('A field that is missing or invalid.') },
    reason: text('What is wrong with the new password or second factor.', {
      enum: Object.keys({ ...FLAW_MESSAGES, ...FACTOR_FLAW_MESSAGES }),
    }),
    retryAfter: {
      ...{ type: 'integer', const: SPECIFIED_RETRY_AFTER_SECONDS },
      description:
        'Seconds. Only after too many failed logins, and then always 900. The header `Retry-After` has those that are left.',
    },
  }
  const failed = { type: 'boolean', const: false }
  const schema = whole({ success: failed, error: object(error, ['code', 'message']) })
  const headers = {
    ...(status === 401 && { 'WWW-Authenticate': header('See RFC 6750.', {}, true) }),
    ...([429, 503].includes(status) && { 'Retry-After': header('Seconds to wait.', {}, true) }),
  }
  const examples = codes.map(code => {
    return [code, { summary: when[code], value: JSON.parse(failureText(code)) }]
  })
  const description = codes.map(code => `\`${code}\`: ${when[code]}.`).join('\n\n')
  return toResponse(description, headers, { schema, examples: Object.fromEntries(examples) })
}

/** A copy with references in the place of schemas that have a name. */
function moveNamed<T>(part: T, schemas: Record<string, JsonSchema>): T {
  return JSON.parse(JSON.stringify(part), (_key, value) => {
    // A schema may also describe a field of this name.
    if (typeof value?.title !== 'string') return value
    const { title, ...schema } = value
    schemas[title] = schema
    return { $ref: `#/components/schemas/${title}` }
  })
}
