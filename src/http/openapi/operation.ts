// What an operation accepts and answers. A route takes it as its options: Fastify validates and serialises by
// its schemas, and document.ts describes the operation by them.
import type { FastifySchema, RouteShorthandOptions } from 'fastify'
import type { FailureCode } from '../answer/envelope.ts'

type Described = Required<
  Pick<FastifySchema, 'operationId' | 'tags' | 'summary' | 'description'>
> & {
  /** Those that not every operation has. */
  failures?: FailureCode[]
  /** How Fastify treats the route. */
  options?: Omit<RouteShorthandOptions, 'schema'>
}

export function operation({ failures = [], options, ...schema }: FastifySchema & Described) {
  // Failures have no schema here: their texts are cached, so Fastify has nothing to serialise.
  return { ...options, schema: { ...schema, 'x-failures': failures } }
}

/** An address that is not part of the API. */
export const NOT_DESCRIBED = { schema: { hide: true } }

/**
 * For an answer with optional fields: the serialiser that Fastify compiles would write all required fields
 * before them.
 */
export const IN_GIVEN_ORDER = { serializerCompiler: () => JSON.stringify }

/** Either is accepted by operations that only read. */
export const READING = [{ accessToken: [] }, { sessionCookie: [] }]
/** A change that is authenticated by the cookie needs the CSRF token as well. */
export const CHANGING = [{ accessToken: [] }, { sessionCookie: [], csrfToken: [] }]

type Properties = Record<string, object>

export function object<P extends Properties, R extends keyof P & string>(
  properties: P,
  required: readonly R[],
) {
  return { type: 'object', required, properties } as const
}

/** An object that has all these fields. */
export function whole<P extends Properties>(properties: P) {
  return object(properties, Object.keys(properties))
}

export function orNull<S extends { type: string }>(schema: S, description?: string) {
  return { ...schema, type: [schema.type, 'null'], ...(description && { description }) }
}

type Named = { title: string }

/** A schema that the document describes once, as a component of this name, and refers to. */
export function named<S extends object>(title: string, schema: S): Named & S {
  return { title, ...schema }
}

/** The answer of an operation that succeeds: the envelope around its data. */
export function success(
  description: string,
  data: Named,
  headers: Properties = {},
  status: 200 | 201 = 200,
) {
  return {
    [status]: {
      'x-response-description': description,
      headers,
      ...whole({ success: { type: 'boolean', const: true }, data }),
    },
  }
}
