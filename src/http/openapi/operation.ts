// What an operation accepts and answers. A route takes it as its options: Fastify validates requests by its schemas, and
// document.ts describes the operation.
import type { RouteShorthandOptions } from 'fastify'
import type { FailureCode } from '../answer/envelope.ts'

export type JsonSchema = {
  $ref?: string
  type?: string | string[]
  format?: string
  maxLength?: number
  pattern?: string
  description?: string
  const?: unknown
  enum?: readonly unknown[]
  examples?: unknown[]
  anyOf?: JsonSchema[]
  items?: JsonSchema
  properties?: Record<string, JsonSchema>
  required?: string[]
  additionalProperties?: boolean
}

export type Header = { description: string; required: boolean; schema: JsonSchema }
type Answer = { description: string; headers?: Record<string, Header>; schema?: JsonSchema }

export type Described = {
  operationId: string
  tags: string[]
  summary: string
  description: string
  security: Record<string, string[]>[]
  params?: JsonSchema
  querystring?: JsonSchema
  body?: JsonSchema
  /** By status. One without a schema has no body. */
  response: Record<number, Answer>
  /** Those that not every operation has. */
  failures?: FailureCode[]
}

type Options = Omit<RouteShorthandOptions, 'schema' | 'config'>

/** `options`: how Fastify treats the route. */
export function operation({ options, ...described }: Described & { options?: Options }) {
  const { params, querystring, body } = described
  const config: object = { described }
  // Answers have no schema here: their fields are written in the given order.
  const schema = {
    ...(params && { params }),
    ...(querystring && { querystring }),
    ...(body && { body }),
  }
  return { ...options, config, schema }
}

/** Either is accepted by operations that only read. */
export const READING = [{ accessToken: [] }, { sessionCookie: [] }] as Described['security']
/** A change that is authenticated by the cookie needs the CSRF token as well. */
export const CHANGING = [{ accessToken: [] }, { sessionCookie: [], csrfToken: [] }]

export function text(description: string, more: JsonSchema = {}): JsonSchema {
  return { type: 'string', description, ...more }
}

export function header(description: string, more: JsonSchema = {}, required = false): Header {
  return { description, required, schema: { type: 'string', ...more } }
}

export function object(properties: Record<string, object>, required: string[]): JsonSchema {
  return { type: 'object', required, properties }
}

/** An object that has all these fields. */
export function whole(properties: Record<string, object>): JsonSchema {
  return object(properties, Object.keys(properties))
}

export function orNull(schema: JsonSchema, description?: string): JsonSchema {
  const type = [schema.type ?? [], 'null'].flat()
  return { ...schema, type, ...(description && { description }) }
}

type Named = JsonSchema & { title: string }

/** A schema that the document describes once, as a component of this name, and refers to. */
export function named(title: string, schema: JsonSchema): Named {
  return { title, ...schema }
}

/** The answer of an operation that succeeds: the envelope around its data. */
export function success(description: string, data: Named, headers = {}, status = 200) {
  const schema = whole({ success: { type: 'boolean', const: true }, data })
  return { [status]: { description, headers, schema } }
}
