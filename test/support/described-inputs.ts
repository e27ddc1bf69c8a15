// Every text that an OpenAPI document or the form of a page lets callers send, as an input of the test of parser costs: in
// paths, queries, headers (with credentials) and bodies.
import assert from 'node:assert/strict'
import type { Operation } from '../../src/http/openapi/document.ts'
import type { JsonSchema } from '../../src/http/openapi/operation.ts'
import { type Input, PIECES, toBytes } from '../http/parser-inputs.ts'
import type { Description } from './described.ts'

/** Also line breaks, marks that Unicode reorders, and a character that it replaces by 18 others. */
const TEXT_PIECES = [...PIECES, '@', '\n', '\0', '\u0301\u0323', '\ufdfa']
/** With credentials just below the 16 KiB of address and headers. */
const MAX_BYTES = 14_000
/** Longer queries are ignored. */
const QUERY_MAX_BYTES = 8_000
const ANY_ID = '00000000-0000-4000-8000-000000000000'

type Place = 'path' | 'query' | 'header' | 'body'
/** `start` comes before the text, such as "Bearer ". The plain request has only some parts. */
type Part = { place: Place; name: string; start?: string; plain: () => string; isInPlain: boolean }
type Target = Record<'id' | 'method' | 'path' | 'mediaType', string>

const asHeader = (text: string) => text.replace(/[^ -~]/g, '!')
const ENCODED: Record<Place, (text: string) => string> = {
  ...{ path: encodeURIComponent, query: encodeURIComponent, header: asHeader },
  body: JSON.stringify,
}
/** How the fields of a body are written, by its media type. */
const FORM = 'application/x-www-form-urlencoded'
const WRITERS: Record<string, (fields: Record<string, string>) => string> = {
  'application/json': JSON.stringify,
  [FORM]: fields => new URLSearchParams(fields).toString(),
}
/** What the address of a page may have. All forms read it in the same way. */
const PAGE_QUERY = ['return_to', 'challenge', 'prompt', 'lang', 'done', 'again']

/** `secretOf` gives a valid credential of the security scheme with this name. */
export function describedInputs(
  { document }: Description,
  secretOf: (scheme: string) => string,
): Input[] {
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([verb, operation]) => {
      const { operationId: id, parameters, security, requestBody } = operation
      const method = verb.toUpperCase()
      const bodies = Object.entries(requestBody?.content ?? { none: { schema: {} } })
      return bodies.flatMap(([mediaType, { schema }]) =>
        inputsOf({ id, method, path, mediaType }, [
          ...parameters.map(toPart),
          ...credentialsOf(security, document.components.securitySchemes, secretOf),
          ...fieldsOf(schema),
        ]),
      )
    }),
  )
}

/** Those of the forms in these pages. `plainOf` gives what a user would send in the field with this name. */
export function formInputs(
  pages: string[],
  plainOf: (field: string) => string,
  cookie: () => string,
): Input[] {
  const forms = new Map<string, string[]>()
  const found = pages.join('\n').matchAll(/<form[^>]* action="([^"?]+)[^>]*>(.*?)<\/form>/gs)
  for (const [, action = '', fields = ''] of found) {
    const names = [...fields.matchAll(/ name="([^"]+)"/g)].map(([, name = '']) => name)
    forms.set(action.replace(/[\da-f-]{36}/, ANY_ID), names)
  }
  return [...forms].flatMap(([path, names]) =>
    inputsOf({ id: `the form ${path}`, method: 'POST', path, mediaType: FORM }, [
      ...(path === '/login' ? PAGE_QUERY : []).map(name => toPart({ in: 'query', name })),
      { place: 'header', name: 'Cookie', isInPlain: true, plain: cookie },
      ...names.map(
        (name): Part => ({ place: 'body', name, isInPlain: true, plain: () => plainOf(name) }),
      ),
    ]),
  )
}

function inputsOf({ id, method, path, mediaType }: Target, parts: Part[]): Input[] {
  /** The plain request, but with this text in one of its parts. */
  const request = (filled?: Part, text = '') => {
    const textsIn = (place: Place) =>
      parts
        .filter(part => part.place === place && (part.isInPlain || part === filled))
        .map(part => {
          const value = part === filled ? text : part.plain()
          return [part.name, `${part.start ?? ''}${value}`] as const
        })
    const address = textsIn('path').reduce(
      (all, [name, text]) => all.replace(`{${name}}`, encodeURIComponent(text)),
      path,
    )
    const query = textsIn('query').map(([name, text]) => `&${name}=${encodeURIComponent(text)}`)
    const headers = textsIn('header').map(([name, text]) => `${name}: ${asHeader(text)}`)
    headers.push('Sec-Fetch-Site: same-origin')
    const sent = { method, path: `${address}?${query.join('').slice(1)}`, headers }
    const fields = textsIn('body')
    if (fields.length === 0) return toBytes(sent)
    const write = WRITERS[mediaType]
    assert.ok(write, `${id}: WRITERS lacks ${mediaType}`)
    headers.push(`Content-Type: ${mediaType}`)
    return toBytes({ ...sent, body: write(Object.fromEntries(fields)) })
  }
  return parts.map(part => ({
    name: `${part.name} in the ${part.place} of ${id}`,
    plain: () => request(),
    pieces: TEXT_PIECES,
    hostile(piece) {
      const maxBytes = part.place === 'query' ? QUERY_MAX_BYTES : MAX_BYTES
      const run = piece.repeat(maxBytes / 2 / Buffer.byteLength(ENCODED[part.place](piece)))
      // Some patterns take long only if another text comes before or after the repeated piece.
      return request(part, `${run}a${run}\na`)
    },
  }))
}

function toPart(parameter: { in: string; name: string }): Part {
  const { in: place, name, required: isInPlain = false, schema = {} } = Object(parameter)
  return { place, name, isInPlain, plain: () => schema.examples?.[0] ?? ANY_ID }
}

/** The plain request authenticates itself in the way that is described last. */
function credentialsOf(
  security: Operation['security'],
  schemes: object,
  secretOf: (scheme: string) => string,
): Part[] {
  return [...new Set(security.flatMap(Object.keys))].map(scheme => {
    const { type, name, in: place } = Reflect.get(schemes, scheme)
    const isCookie = place === 'cookie'
    return {
      place: 'header',
      name: type === 'http' ? 'Authorization' : isCookie ? 'Cookie' : name,
      start: type === 'http' ? 'Bearer ' : isCookie ? `${name}=` : '',
      plain: () => secretOf(scheme),
      isInPlain: scheme in (security.at(-1) ?? {}),
    }
  })
}

function fieldsOf({ properties = {}, required = [] }: JsonSchema): Part[] {
  const texts = Object.entries(properties).filter(([, { type }]) => type !== 'boolean')
  return texts.map(([name, { type, examples }]) => {
    assert.equal(type, 'string', `${name}: only texts are filled`)
    const isInPlain = required.includes(name)
    return { place: 'body', name, isInPlain, plain: () => String(examples?.[0]) }
  })
}
