// Reads the parts of a request to the admin API. Unknown fields are refused: they are probably misspelt.
import type { FastifyRequest } from 'fastify'
import { WrongUse } from '../../admin/failures.ts'

/** A part of the request that cannot be used. Its message is sent to the caller. */
export class InvalidInput extends Error {
  readonly field: string | undefined

  constructor(message: string, field?: string) {
    super(message)
    this.field = field
  }
}

export type Values = Partial<Record<string, unknown>>

export function bodyOf({ body }: FastifyRequest, names: readonly string[]): Values {
  if (body === null || typeof body !== 'object' || Array.isArray(body)) {
    throw new InvalidInput('The body must be a JSON object.')
  }
  requireKnown(Object.keys(body), names)
  return { ...body }
}

/** Not Fastify's query, because that one leaves out what is too long. */
export function queryOf({ url }: FastifyRequest, names: readonly string[]): Values {
  const text = url.split('?').slice(1).join('?')
  requireUtf8(text)
  const query = new URLSearchParams(text)
  const given = [...query.keys()]
  requireKnown(given, names)
  for (const name of names) {
    if (query.getAll(name).length > 1) throw new InvalidInput(`${name} is given twice.`, name)
  }
  return Object.fromEntries(query)
}

/** URLSearchParams would replace other bytes, and the request would mean another value. */
function requireUtf8(text: string): void {
  try {
    decodeURIComponent(text)
  } catch {
    throw new InvalidInput('The query must be percent-encoded UTF-8.')
  }
}

function requireKnown(given: string[], names: readonly string[]): void {
  if (given.every(name => names.includes(name))) return
  const known = names.length === 0 ? 'none is known' : `known are ${names.join(', ')}`
  throw new InvalidInput(`The request has an unknown field; ${known}.`)
}

/** Undefined if the field is not given. `parse` throws WrongUse. */
export function read<T>(values: Values, field: string, parse: (typed: string) => T): T | undefined {
  const value = values[field]
  if (value === undefined) return undefined
  if (typeof value !== 'string') throw new InvalidInput(`${field} must be a string.`, field)
  try {
    return parse(value)
  } catch (error) {
    if (!(error instanceof WrongUse)) throw error
    throw new InvalidInput(error.message, field)
  }
}

export function readRequired<T>(values: Values, field: string, parse: (typed: string) => T): T {
  const value = read(values, field, parse)
  if (value === undefined) throw new InvalidInput(`${field} is missing.`, field)
  return value
}

export function readBoolean(values: Values, field: string): boolean | undefined {
  const value = values[field]
  if (value === undefined || typeof value === 'boolean') return value
  throw new InvalidInput(`${field} must be true or false.`, field)
}

const PAGE_MAX = 100

/** How many entries of a list are wanted: 1 to 100. */
export function readLimit(values: Values, field = 'limit', byDefault = PAGE_MAX): number {
  const parse = (typed: string) => {
    if (/^([1-9]\d?|100)$/.test(typed)) return Number(typed)
    throw new WrongUse(`${field} takes a whole number from 1 to ${PAGE_MAX}.`)
  }
  return read(values, field, parse) ?? byDefault
}

export function paramOf(request: FastifyRequest, name: string): string {
  return String(Object(request.params)[name])
}
