// The parts of a request whose text the service parses: a plain request, and one filled with a given text. Those that no
// document describes come first; then every text that an OpenAPI document or the form of a page lets callers send.
import assert from 'node:assert/strict'
import type { Operation } from '../../src/http/openapi/document.ts'
import type { JsonSchema } from '../../src/http/openapi/operation.ts'
import type { Description } from '../support/described.ts'
import { LOGIN } from '../support/service.ts'
import { AUTH, SESSION_COOKIE } from '../support/session-client.ts'
import { HOST, JSON_TYPE, lines } from './hostile-cases.ts'

/** Just below the 16 KiB that address and headers, or a body, may have. */
const LENGTH = 15_000

export type Input = {
  name: string
  plain: () => Buffer
  pieces: string[]
  hostile: (piece: string) => Buffer
}

/** Characters that separate, nest, escape or repeat in a header, an address or a token. */
const PIECES = [
  ...['-', ',', ';', '=', ' ', '.', ':', '/', '"', '\\', '[', ']', '{', '(', '%', '&', '0', 'A'],
  ...['%25', 'a,', 'a-', 'a;', 'a=', 'a.', 'a&', 'Aa', ' a', ', ', '; ', ';q=', ',;q=1', 'a;a=";'],
  ...['0:', '1.', '::', '[:', ']:1', '%a', '1.1.1.1,', '10.0.0.1,', '::1,', 'de-'],
  ...['__Host-session=', '__Host-session;', '"__proto__" '],
]

const fill = (piece: string, length = LENGTH) =>
  piece.repeat(Math.ceil(length / piece.length)).slice(0, length)

type Request = { method?: string; path?: string; headers?: string[]; body?: string }

function toBytes({ method = 'GET', path = '/login', headers = [], body = '' }: Request) {
  const length = body === '' ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
  const hosts = headers.some(line => line.startsWith('Host:')) ? [] : [HOST]
  const head = lines(`${method} ${path} HTTP/1.1`, ...hosts, ...headers, ...length)
  return Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)])
}

const postJson = (path: string, body: object | string): Request => ({
  method: 'POST',
  path,
  headers: [JSON_TYPE],
  body: typeof body === 'string' ? body : JSON.stringify(body),
})

const part = (name: string, plain: Request, toRequest: (piece: string) => Request): Input => ({
  name,
  plain: () => toBytes(plain),
  pieces: PIECES,
  hostile: piece => toBytes(toRequest(piece)),
})

/** A request with this header; `toValue` puts the text where the service parses it. */
function header(name: string, plain: Request, toValue = (text: string) => text): Input {
  const others = plain.headers?.filter(line => !line.startsWith(`${name}:`)) ?? []
  const room = LENGTH - others.join('').length
  return part(`${name} of ${plain.method ?? 'GET'} ${plain.path}`, plain, piece => ({
    ...plain,
    headers: [...others, `${name}: ${toValue(fill(piece, room))}`],
  }))
}

/** Malformed requests end the connection. So does this plain one, so that both pay for a handshake. */
const closed = (plain: Request): Request => ({
  ...plain,
  headers: [...(plain.headers ?? []), 'Connection: close'],
})

const COOKIE = `${SESSION_COOKIE}=${'x'.repeat(43)}`
const PAGE: Request = { path: '/login' }
const SESSION: Request = { path: `${AUTH}/session` }
const VERIFY: Request = { path: `${AUTH}/verify` }
const NAVIGATION = ['X-Forwarded-Method: GET', 'Sec-Fetch-Mode: navigate']
const VISIT = {
  ...VERIFY,
  headers: [...NAVIGATION, 'X-Forwarded-Host: app.example.com', 'X-Forwarded-Uri: /'],
}
const END: Request = {
  method: 'DELETE',
  path: `${AUTH}/sessions`,
  headers: [`Cookie: ${COOKIE}`, 'Sec-Fetch-Site: same-origin', 'X-CSRF-Token: a.b'],
}
const ATTEMPT = postJson(LOGIN, { email: 'unknown@example.com', password: 'wrong' })
const REFRESH = postJson(`${AUTH}/refresh`, { refreshToken: 'a.b.c' })
const LOGOUT = postJson(`${AUTH}/logout`, { refreshToken: 'a.b.c' })
const ASKED = ['Origin: http://localhost', 'Access-Control-Request-Method: POST']
const PREFLIGHT: Request = { method: 'OPTIONS', path: LOGIN, headers: ASKED }
const PROXY_HEADERS = ['X-Forwarded-Proto: https', 'X-Forwarded-For: 203.0.113.9']
const FORWARDED: Request = { path: '/login', headers: PROXY_HEADERS }

const encoded = (value: string) => Buffer.from(value).toString('base64url')
const tokenOf = (typ: string, alg: string, piece: string) =>
  `${encoded(JSON.stringify({ alg, typ, kid: fill(piece, LENGTH / 3) }))}.${encoded('{}')}.x`
const bearer = (token: string) => ({ ...SESSION, headers: [`Authorization: Bearer ${token}`] })

export const INPUTS: Input[] = [
  header('Accept-Language', PAGE),
  header('Accept-Encoding', PAGE),
  header('Cookie', SESSION),
  header('Cookie', SESSION, text => `${text.slice(60)}; ${COOKIE}`),
  header('Cookie', ATTEMPT, text => `${text.slice(60)}; __Host-device=x`),
  header('Authorization', SESSION),
  header('X-Original-URL', VERIFY),
  header('X-Forwarded-Host', VISIT),
  header('X-Forwarded-Uri', VISIT),
  header('Origin', END),
  header('Origin', END, text => `http://localhost:${text}`),
  header('Sec-Fetch-Site', END),
  header('User-Agent', ATTEMPT),
  header('Content-Type', closed(LOGOUT)),
  header('Content-Type', closed(LOGOUT), text => `application/json;${text}`),
  header('Content-Type', LOGOUT, text => `application/json;${text.slice(0, 200)}`),
  header('Content-Encoding', closed(LOGOUT), text => `x${text}`),
  header('Transfer-Encoding', closed({ method: 'POST', path: LOGIN }), text => `x${text}`),
  header('Expect', closed(LOGOUT), text => `x${text}`),
  header('Host', PAGE),
  header('Connection', PAGE),
  header('Origin', PREFLIGHT),
  header('Access-Control-Request-Method', PREFLIGHT),
  header('Access-Control-Request-Headers', PREFLIGHT),
  part('2,500 headers', closed(PAGE), piece => ({
    headers: Array(2_500).fill(`${piece.replace(/\W/g, '') || 'x'}:`),
  })),
  query('the query', '', LENGTH),
  query('a query of 8 KB', '', 8_000),
  query('return_to', 'return_to=', 8_000),
  query('return_to of a listed origin', 'return_to=https://app.example.com/', 2_000),
  part('the path', { path: '/nothing' }, piece => ({ path: `/${toAddress(fill(piece))}` })),
  part('the body', closed(LOGOUT), piece => postJson(`${AUTH}/logout`, fill(piece))),
  part('the key id of a refresh token', REFRESH, piece =>
    postJson(`${AUTH}/refresh`, { refreshToken: tokenOf('rt+jwt', 'HS256', piece) }),
  ),
  part('the key id of an access token', SESSION, it => bearer(tokenOf('at+jwt', 'ES256', it))),
  part('the header of an access token', SESSION, it => bearer(`${encoded(fill(it, 10_000))}.a.b`)),
]

export const FORWARDED_INPUTS: Input[] = [
  header('X-Forwarded-For', FORWARDED),
  header('X-Forwarded-For', FORWARDED, text => `${text}, 10.0.0.1`),
  header('X-Forwarded-Proto', FORWARDED),
  header('X-Forwarded-Proto', FORWARDED, text => `${text}, https`),
]

function query(name: string, start: string, length: number): Input {
  return part(name, PAGE, piece => ({ path: `/login?${start}${toAddress(fill(piece, length))}` }))
}

/** An address cannot contain a space. */
function toAddress(text: string): string {
  return text.replaceAll(' ', '+')
}

/** Also line breaks, marks that Unicode reorders, and a character that it replaces by 18 others. */
const TEXT_PIECES = [...PIECES, '@', '\n', '\0', '\u0301\u0323', '\ufdfa']
/** With credentials just below the 16 KiB of address and headers. */
const MAX_BYTES = 14_000
/** Longer queries are ignored. */
const QUERY_MAX_BYTES = 8_000
const ANY_ID = '00000000-0000-4000-8000-000000000000'

type Place = 'path' | 'query' | 'header' | 'body'
/**
 * `start` comes before the text, such as "Bearer ". The plain request has only some parts. `within`: the field of an object
 * that has the text, and the fields beside it.
 */
type Part = {
  place: Place
  name: string
  start?: string
  plain: () => string
  isInPlain: boolean
  within?: [field: string, others: Record<string, unknown>]
}
type Target = Record<'id' | 'method' | 'path' | 'mediaType', string>

const asHeader = (text: string) => text.replace(/[^ -~]/g, '!')
const ENCODED: Record<Place, (text: string) => string> = {
  ...{ path: encodeURIComponent, query: encodeURIComponent, header: asHeader },
  body: JSON.stringify,
}
/** How the fields of a body are written, by its media type. */
const FORM = 'application/x-www-form-urlencoded'
const WRITERS: Record<string, (fields: Record<string, unknown>) => string> = {
  'application/json': JSON.stringify,
  [FORM]: fields => new URLSearchParams(fields as Record<string, string>).toString(),
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
          const value = `${part.start ?? ''}${part === filled ? text : part.plain()}`
          return [part, value] as const
        })
    const address = textsIn('path').reduce(
      (all, [{ name }, text]) => all.replace(`{${name}}`, encodeURIComponent(text)),
      path,
    )
    const query = textsIn('query').map(([{ name }, text]) => `&${name}=${encodeURIComponent(text)}`)
    const headers = textsIn('header').map(([{ name }, text]) => `${name}: ${asHeader(text)}`)
    headers.push('Sec-Fetch-Site: same-origin')
    const sent = { method, path: `${address}?${query.join('').slice(1)}`, headers }
    const fields = textsIn('body').map(([{ name, within }, text]) => [
      name,
      within ? { ...within[1], [within[0]]: text } : text,
    ])
    if (fields.length === 0) return toBytes(sent)
    const write = WRITERS[mediaType]
    assert.ok(write, `${id}: WRITERS lacks ${mediaType}`)
    headers.push(`Content-Type: ${mediaType}`)
    return toBytes({ ...sent, body: write(Object.fromEntries(fields)) })
  }
  return parts.map(part => ({
    name: `${[part.name, part.within?.[0]].filter(Boolean).join('.')} in the ${part.place} of ${id}`,
    // Without the object, other work is done.
    plain: () => (part.within ? request(part, part.plain()) : request()),
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
  const isFilled = ({ type }: JsonSchema) => type !== 'boolean' && type !== 'integer'
  const texts = Object.entries(properties).filter(([, schema]) => isFilled(schema))
  return texts.flatMap(([name, schema]): Part[] => {
    const { type, examples } = schema
    const isInPlain = required.includes(name)
    if (type !== 'object') {
      assert.ok([type].flat().includes('string'), `${name}: only texts are filled`)
      return [{ place: 'body', name, isInPlain, plain: () => String(examples?.[0]) }]
    }
    const all = Object.entries(schema.properties ?? {}).map(([field, it]) => [
      field,
      it.enum?.[0] ?? it.examples?.[0],
    ])
    const others: Record<string, unknown> = Object.fromEntries(all)
    return fieldsOf(schema).map(part => ({
      ...{ ...part, name, isInPlain, within: [part.name, others] },
    }))
  })
}
