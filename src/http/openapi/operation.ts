// What an operation accepts and answers. A route takes it as its options: Fastify validates and serialises by
// its schemas, and document.ts describes the operation by them.
import type { FastifySchema } from 'fastify'
import type { PublicFailureCode } from '../answer/envelope.ts'

type Described = Required<Pick<FastifySchema, 'operationId' | 'tags' | 'summary' | 'description'>>

/** `failures`: those that not every operation has. */
export function operation<S extends FastifySchema>(
  schema: S & Described,
  failures: PublicFailureCode[] = [],
) {
  // Failures have no schema here: their texts are cached, so Fastify has nothing to serialise.
  return { schema: { ...schema, 'x-failures': failures } }
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

/** An answer with status 200: the envelope around its data. */
export function success(description: string, data: object, headers: Properties = {}) {
  return {
    200: {
      'x-response-description': description,
      headers,
      ...object({ success: { type: 'boolean', const: true }, data }, ['success', 'data']),
    },
  }
}

export const NO_DATA = { type: 'object', description: 'Empty.' }

/** Every id. In an address or query, capital letters are accepted too. */
export const ID = { type: 'string', format: 'uuid' }
const TIME = { type: 'string', format: 'date-time', examples: ['2026-03-01T09:30:00.000Z'] }

export const CSRF_TOKEN_HEADER = {
  'X-CSRF-Token': {
    type: 'string',
    description:
      'Only with a session cookie: send it back with each POST and DELETE that the cookie authenticates.',
  },
}

export const CLEARED_COOKIE_HEADER = {
  'Set-Cookie': {
    type: 'string',
    description: 'Deletes the session cookie, if it has authenticated the request.',
  },
}

export const USER = {
  $id: 'User',
  ...object(
    {
      id: {
        ...ID,
        description: 'Never changes. It is `sub` in the access token.',
        examples: ['0b7f7c3e-5d0c-4f0a-9a51-2f8f0f1f6a10'],
      },
      email: { type: 'string', examples: ['kate@example.com'] },
      name: { type: 'string', examples: ['Kate'] },
      role: { type: 'string', examples: ['user'] },
      createdAt: TIME,
    },
    ['id', 'email', 'name', 'role', 'createdAt'],
  ),
}

export const SESSION = {
  $id: 'Session',
  ...object(
    {
      id: {
        ...ID,
        description: 'It is `sid` in the access token.',
        examples: ['7c9e6679-7425-40de-944b-e07fc1f90ae7'],
      },
      createdAt: { ...TIME, description: 'The time of the login.' },
      lastUsedAt: TIME,
      expiresAt: {
        ...TIME,
        description: 'The session may end earlier, if it is not used.',
        examples: ['2026-03-31T09:30:00.000Z'],
      },
      userAgent: {
        type: 'string',
        description: 'The `User-Agent` header of the login, or empty.',
        examples: ['curl/8.5.0'],
      },
      ip: { type: 'string', examples: ['203.0.113.9'] },
      current: { type: 'boolean', description: 'True for the session of this request.' },
    },
    ['id', 'createdAt', 'lastUsedAt', 'expiresAt', 'userAgent', 'ip', 'current'],
  ),
}

/** The data of a login. */
export const TOKENS = {
  user: { $ref: 'User#' },
  accessToken: {
    type: 'string',
    description: 'A JWT that other services verify with the published keys.',
    examples: ['eyJhbGciOiJFUzI1NiIs…'],
  },
  refreshToken: {
    type: 'string',
    description: 'A JWT that only this service accepts, once, for seven days.',
    examples: ['eyJhbGciOiJIUzI1NiIs…'],
  },
  expiresIn: {
    type: 'integer',
    description: 'Seconds until the access token expires.',
    examples: [3600],
  },
}

/** The refresh token of a body. Other bodies count as bodies without one. */
export const REFRESH_TOKEN_BODY = {
  type: 'object',
  description: 'Leave it out to use a session cookie or an access token.',
  properties: { refreshToken: { type: 'string', examples: TOKENS.refreshToken.examples } },
}
