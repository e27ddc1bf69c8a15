// The parts of a request whose text the service parses and no document describes: a plain request, and one filled with a
// given text. described-inputs.ts has the others.

import { LOGIN } from '../support/service.ts'
import { AUTH } from '../support/session-client.ts'
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
export const PIECES = [
  ...['-', ',', ';', '=', ' ', '.', ':', '/', '"', '\\', '[', ']', '{', '(', '%', '&', '0', 'A'],
  ...['%25', 'a,', 'a-', 'a;', 'a=', 'a.', 'a&', 'Aa', ' a', ', ', '; ', ';q=', ',;q=1', 'a;a=";'],
  ...['0:', '1.', '::', '[:', ']:1', '%a', '1.1.1.1,', '10.0.0.1,', '::1,', 'de-'],
  ...['__Host-session=', '__Host-session;', '"__proto__" '],
]

const fill = (piece: string, length = LENGTH) =>
  piece.repeat(Math.ceil(length / piece.length)).slice(0, length)

type Request = { method?: string; path?: string; headers?: string[]; body?: string }

export function toBytes({ method = 'GET', path = '/login', headers = [], body = '' }: Request) {
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

const SESSION_COOKIE = `__Host-session=${'x'.repeat(43)}`
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
  headers: [`Cookie: ${SESSION_COOKIE}`, 'Sec-Fetch-Site: same-origin', 'X-CSRF-Token: a.b'],
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
  header('Cookie', SESSION, text => `${text.slice(60)}; ${SESSION_COOKIE}`),
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
