// Makes the route of an operation: its schemas, by which Fastify validates requests and the document describes them, and
// its handler, which gives the operation the parsed fields of a request.
import type { FastifyRequest, RouteShorthandOptions } from 'fastify'
import { named, object, operation, success, whole } from '../../http/openapi/operation.ts'
import { ID, NO_DATA } from '../../http/openapi/schemas.ts'
import { WrongUse } from '../../system/failures.ts'
import type { Fields, Operation } from '../operation.ts'
import type { AdminDeps } from '../operations/deps.ts'
import { countField, listOf, PAGE_MAX } from './schemas.ts'

/** The method and the address of an operation. */
export function addressOf({ request }: Operation): { method: string; url: string } | null {
  const [method = '', path = ''] = request?.split(' ') ?? []
  return request && { method, url: `/admin/v1${path}` }
}

export function optionsOf(id: string, op: Operation): RouteShorthandOptions {
  const { method, url } = addressOf(op) ?? { method: '', url: '' }
  const { summary, status = 200, failures = [] } = op
  const description = [op.description, op.forCallers].filter(Boolean).join(' ')
  const fields = fieldsOf(op)
  const isQuery = inQuery(method)
  const required = Object.keys(fields).filter(name => fields[name]?.isRequired)
  const [, param] = /:(\w+)/.exec(url) ?? []
  return operation({
    ...{ operationId: id, summary, description, tags: [tagOf(url)] },
    security: [{ adminToken: [] }],
    ...(param && { params: object({ [param]: PARAMS[param] ?? {} }, [param]) }),
    querystring: toSchema(isQuery ? fields : {}),
    ...(method !== 'GET' && { body: toSchema(isQuery ? {} : fields, required) }),
    response: success('The request was performed.', dataOf(id, op), {}, status),
    failures: [...failures, ...(param ? (['NOT_FOUND'] as const) : [])],
    options: {
      attachValidation: true,
      preValidation(request, _reply, next) {
        if (request.body === undefined && required.length === 0) request.body = {}
        next()
      },
    },
  })
}

/** Resolves to the data of the answer. Throws a Failure if the request cannot be performed. */
export async function handle(
  op: Operation,
  deps: AdminDeps,
  request: FastifyRequest,
): Promise<object> {
  const fields = fieldsOf(op)
  const isQuery = inQuery(request.method)
  requireUtf8(request.url)
  requireValid(request, isQuery ? { querystring: fields } : { body: fields })
  const [subject = ''] = Object.values(Object(request.params)).map(String)
  const values = parseFields(fields, isQuery ? request.query : request.body)
  if (!op.list) return (await op.run(deps, { named: subject, ...values })).data ?? {}
  const { items, read, positionName = 'after' } = op.list
  const {
    limit = PAGE_MAX,
    [positionName]: from = null,
    ...filter
  }: Record<string, unknown> = values
  // The casts are true: `fieldsOf` has the parsers.
  const page = { from: from as string | null, limit: limit as number }
  const listed = await read(deps, { named: subject, ...filter }, page)
  return { [items]: listed.items, next: listed.next }
}

const inQuery = (method: string) => ['GET', 'HEAD', 'DELETE'].includes(method)

/** In a query, a flag is text. */
const QUERY_FLAG = { enum: ['true', 'false'], parse: () => (typed: string) => typed === 'true' }

function fieldsOf({ request, fields, list }: Operation): Fields {
  const [method = ''] = request?.split(' ') ?? []
  const own = Object.entries(fields)
    .filter(([, { only }]) => only !== 'command')
    .map(([name, field]) => {
      const isFlag = field.type === 'boolean' && inQuery(method)
      return [name, isFlag ? { about: field.about, ...QUERY_FLAG } : field]
    })
  const about = '`next` of the previous page.'
  return {
    ...Object.fromEntries(own),
    ...(list && {
      limit: countField(),
      [list.positionName ?? 'after']: { about, parse: list.parsePosition },
    }),
  }
}

function dataOf(id: string, { data, list }: Operation): { title: string } {
  if (!list) return data ?? NO_DATA
  const { items, schema, positionName = 'after' } = list
  const next = {
    type: [positionName === 'after' ? 'string' : 'integer', 'null'],
    description: `Send it as \`${positionName}\` to get the next page. Null at the end.`,
    examples: [null],
  }
  return named(`${id.replace('list', '')}Page`, whole({ [items]: listOf(schema), next }))
}

const PARAMS: Record<string, object> = {
  user: { type: 'string', description: 'An email or an id.', examples: ['kate@example.com'] },
  id: ID,
}

/** The section of the document. */
function tagOf(url: string): string {
  if (/sessions/.test(url)) return 'Sessions'
  if (url.endsWith('/throttle')) return 'Throttle'
  return url.endsWith('/audit') ? 'Audit' : 'Users'
}

/** Unknown fields are refused: they are probably misspelt. */
function toSchema(fields: Fields, required: string[] = []) {
  const properties = Object.entries(fields).map(([name, field]) => {
    const {
      about: description,
      parse: _,
      isRequired: __,
      only: ___,
      input: ____,
      ...schema
    } = field
    return [name, { type: 'string', description, ...schema }]
  })
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
  const { keyword, params, message } = problem
  const part = validationError.validationContext ?? ''
  const field = String(params.missingProperty ?? problem.instancePath.slice(1))
  if (keyword === 'additionalProperties') {
    const names = Object.keys(parts[part] ?? {})
    const known = names.length === 0 ? 'none is known' : `known are ${names.join(', ')}`
    throw new WrongUse(`The request has an unknown field; ${known}.`)
  }
  if (field === '') throw new WrongUse('The body must be a JSON object.')
  if (keyword === 'required') throw new WrongUse(`${field} is missing.`, field)
  if (keyword === 'enum') {
    throw new WrongUse(`${field} is one of ${params.allowedValues}.`, field)
  }
  if (keyword !== 'type') throw new WrongUse(`${field} ${message}.`, field)
  if (part === 'querystring') throw new WrongUse(`${field} is given twice.`, field)
  const type = params.type === 'boolean' ? 'true or false' : 'a string'
  throw new WrongUse(`${field} must be ${type}.`, field)
}

export function parseFields(fields: Fields, values: unknown): Record<string, unknown> {
  const entries = Object.entries<string>(Object(values)).map(([name, value]) => {
    const { enum: allowed, parse: parserOf } = fields[name] ?? {}
    if (allowed && !allowed.includes(value)) {
      throw new WrongUse(`${name} is one of ${allowed}.`, name)
    }
    const parse = parserOf?.(name)
    try {
      return [name, parse ? parse(value) : value]
    } catch (error) {
      throw error instanceof WrongUse ? new WrongUse(error.message, name) : error
    }
  })
  return Object.fromEntries(entries)
}
