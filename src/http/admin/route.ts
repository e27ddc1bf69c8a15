// What a route of the admin API is: an operation, by which Fastify validates requests and the document describes them,
// and its handler, which gets the parsed fields of a request.
import type { FastifyRequest, HTTPMethods, RouteShorthandOptions } from 'fastify'
import { Failure, WrongUse } from '../../admin/failures.ts'
import type { AdminDeps } from '../../admin/operations/deps.ts'
import type { User } from '../../domain/user.ts'
import { isUuid } from '../../identifiers.ts'
import { canonicalEmail, problemWithEmail } from '../../login/credentials.ts'
import type { FailureCode } from '../answer/envelope.ts'
import { IN_GIVEN_ORDER, object, operation, success } from '../openapi/operation.ts'
import { ID, NO_DATA } from '../openapi/schemas.ts'
import type { ReadRecord, WorkQueue } from './limits.ts'

export type RouteDeps = AdminDeps & {
  bcryptCost: number
  oneAtATime: WorkQueue
  recordRead: ReadRecord
}

/** The schema of a part of a query or body. `parse` is a parser of admin/input/, which commands use too. */
type Field = {
  /** By default a string. */
  type?: 'boolean'
  enum?: readonly string[]
  description?: string
  examples?: readonly unknown[]
  parse?: (typed: string) => unknown
}
type Fields = Record<string, Field>

export type Parsed<F extends Fields> = {
  [K in keyof F]?: F[K] extends { parse: (typed: string) => infer T }
    ? T
    : F[K] extends { enum: readonly (infer T)[] }
      ? T
      : F[K] extends { type: 'boolean' }
        ? boolean
        : string
}

type About<Q, B, R> = {
  operationId: string
  summary: string
  description: string
  query?: Q
  body?: B
  required?: R[]
  /** The data of the answer; by default none. */
  data?: { title: string }
  status?: 201
  failures?: FailureCode[]
  /** Each request is logged, as those that change something are. */
  isLogged?: boolean
}

/** `named` is the user, session or device in the address. */
type Input<Q extends Fields, B extends Fields, R extends keyof B> = {
  named: string
  query: Parsed<Q>
  body: Parsed<B> & Required<Pick<Parsed<B>, R>>
}

export type AdminRoute = {
  status: 200 | 201
  isLogged: boolean
  optionsFor: (method: HTTPMethods, url: string) => RouteShorthandOptions
  /** Resolves to the data of the answer. Throws a Failure if the request cannot be performed. */
  handle: (deps: RouteDeps, request: FastifyRequest) => Promise<unknown>
}

export function adminRoute<
  Q extends Fields = Fields,
  B extends Fields = Fields,
  R extends keyof B & string = never,
>(
  about: About<Q, B, R>,
  handle: (deps: RouteDeps, input: Input<Q, B, R>) => Promise<unknown>,
): AdminRoute {
  const { query = {}, body = {}, required = [], data = NO_DATA, ...others } = about
  const { status = 200, isLogged = false, failures = [], ...words } = others
  return {
    status,
    isLogged,
    optionsFor(method, url) {
      const [, param] = /:(\w+)/.exec(url) ?? []
      return operation({
        ...words,
        tags: [tagOf(url)],
        security: [{ adminToken: [] }],
        ...(param && { params: object({ [param]: PARAMS[param] ?? {} }, [param]) }),
        querystring: toSchema(query),
        ...(method !== 'GET' && { body: toSchema(body, required) }),
        response: success('The request was performed.', data, {}, status),
        failures: [
          ...failures,
          ...(param ? (['NOT_FOUND'] as const) : []),
          ...(method === 'GET' ? [] : (['FORBIDDEN'] as const)),
        ],
        options: {
          ...IN_GIVEN_ORDER,
          attachValidation: true,
          preValidation(request, _reply, next) {
            if (request.body === undefined && required.length === 0) request.body = {}
            next()
          },
        },
      })
    },
    async handle(deps, request) {
      requireUtf8(request.url)
      requireValid(request, { querystring: query, body })
      const [named = ''] = Object.values(Object(request.params)).map(String)
      // The casts are true: `parse` has the types of the fields, and the schemas have checked the rest.
      return handle(deps, {
        named,
        query: parseFields(query, request.query) as Parsed<Q>,
        body: parseFields(body, request.body) as Input<Q, B, R>['body'],
      })
    },
  }
}

const PARAMS: Record<string, object> = {
  user: { type: 'string', description: 'An email or an id.', examples: ['kate@example.com'] },
  id: ID,
}

/** The section of the document. */
function tagOf(url: string): string {
  if (/sessions|devices/.test(url)) return 'Sessions'
  if (url.endsWith('/throttle')) return 'Throttle'
  return url.endsWith('/audit') ? 'Audit' : 'Users'
}

/** Unknown fields are refused: they are probably misspelt. */
function toSchema(fields: Fields, required: string[] = []) {
  const properties = Object.entries(fields).map(([name, { parse: _, ...schema }]) => [
    name,
    { type: 'string', ...schema },
  ])
  return { ...object(Object.fromEntries(properties), required), additionalProperties: false }
}

/** The parser of the query would replace other bytes, and the request would mean another value. */
function requireUtf8(url: string): void {
  try {
    decodeURIComponent(url.split('?').slice(1).join('?'))
  } catch {
    throw new WrongUse('The query must be percent-encoded UTF-8.')
  }
}

/** Throws the first problem that Fastify has found. */
function requireValid({ validationError }: FastifyRequest, parts: Record<string, Fields>): void {
  const [problem] = validationError?.validation ?? []
  if (!validationError || !problem) return
  const { keyword, params } = problem
  const part = validationError.validationContext ?? ''
  const field = String(params.missingProperty ?? problem.instancePath.slice(1))
  if (keyword === 'additionalProperties') {
    const names = Object.keys(parts[part] ?? {})
    const known = names.length === 0 ? 'none is known' : `known are ${names.join(', ')}`
    throw new WrongUse(`The request has an unknown field; ${known}.`)
  }
  if (field === '') throw new WrongUse('The body must be a JSON object.')
  if (keyword === 'required') throw new WrongUse(`${field} is missing.`, field)
  if (part === 'querystring' && keyword === 'type') {
    throw new WrongUse(`${field} is given twice.`, field)
  }
  if (keyword === 'enum') {
    throw new WrongUse(`${field} is one of ${params.allowedValues}.`, field)
  }
  const type = params.type === 'boolean' ? 'true or false' : 'a string'
  throw new WrongUse(`${field} must be ${type}.`, field)
}

function parseFields(fields: Fields, values: unknown): object {
  const entries = Object.entries<string>(Object(values)).map(([name, value]) => {
    const { parse } = fields[name] ?? {}
    return [name, parse ? parseField(name, value, parse) : value]
  })
  return Object.fromEntries(entries)
}

export function parseField<T>(field: string, typed: string, parse: (typed: string) => T): T {
  try {
    return parse(typed)
  } catch (error) {
    throw error instanceof WrongUse ? new WrongUse(error.message, field) : error
  }
}

/** The user with this email or id. */
export async function userOf({ store }: RouteDeps, named: string): Promise<User> {
  const email = canonicalEmail(named)
  const user = isUuid(named)
    ? await store.users.findById(named.toLowerCase())
    : problemWithEmail(email)
      ? null
      : await store.users.findByEmail(email)
  if (!user) throw new Failure('There is no user with this email or id.', { code: 'not-found' })
  return user
}
