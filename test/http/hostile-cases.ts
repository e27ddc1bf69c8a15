// Requests that no client library would send: the bytes, and the status and code of the answer.
import { METHODS } from 'node:http'
import { LOGIN } from '../support/service.ts'

export type Case = [name: string, bytes: string | Buffer, status: number, code: string]

export const HOST = 'Host: localhost'
export const JSON_TYPE = 'Content-Type: application/json'

export const lines = (...parts: string[]) => `${parts.join('\r\n')}\r\n\r\n`
export const get = (path: string, ...headers: string[]) =>
  lines(`GET ${path} HTTP/1.1`, HOST, ...headers)
export const method = (name: string, path = LOGIN) => lines(`${name} ${path} HTTP/1.1`, HOST)
export const post = (headers: string[], body: string | Buffer = '') =>
  Buffer.concat([Buffer.from(lines(`POST ${LOGIN} HTTP/1.1`, HOST, ...headers)), Buffer.from(body)])
export const sized = (body: string | Buffer, ...headers: string[]) =>
  post([`Content-Length: ${Buffer.byteLength(body)}`, ...headers], body)
const json = (body: string | Buffer, ...headers: string[]) => sized(body, JSON_TYPE, ...headers)
const ofType = (type: string) => sized('{}', `Content-Type: ${type}`)
export const chunked = (body: string, coding = 'chunked') =>
  post([`Transfer-Encoding: ${coding}`, JSON_TYPE], body)

type Named = [name: string, bytes: string | Buffer]

/** Named by its bytes. */
const named = (bytes: string): Named => [JSON.stringify(bytes), bytes]

const BAD_REQUEST: Named[] = [
  ...['hello\r\n\r\n', '\0\r\n\r\n', 'SSH-2.0-OpenSSH_9.6\r\n', 'EHLO localhost\r\n'].map(named),
  ...['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'GET /\r\n\r\n', `GET ${LOGIN}`].map(named),
  ...['GET / HTTP/3.0', 'GET / HTTP/1.2', 'GET /', `post ${LOGIN} HTTP/1.1`].map(first =>
    named(lines(first, HOST)),
  ),
  ...[`STEAL ${LOGIN} HTTP/1.1`, `GET\t${LOGIN} HTTP/1.1`].map(first => named(lines(first, HOST))),
  ['a TLS record inside TLS', Buffer.from('160301020001000100', 'hex')],
  ['no Host', lines(`GET ${LOGIN} HTTP/1.1`)],
  ['two Hosts', get(LOGIN, 'Host: evil.example')],
  ['two equal Hosts', get(LOGIN, HOST)],
  ['a space before the colon', lines(`GET ${LOGIN} HTTP/1.1`, 'Host : localhost')],
  ['a header without a colon', get(LOGIN, 'nonsense')],
  ['a header without a name', get(LOGIN, ': value')],
  ['a NUL in a header', get(LOGIN, 'X: a\0b')],
  ['a carriage return in a header', get(LOGIN, 'X: a\rb')],
  ['a folded header', get(LOGIN, 'X: a', ' b')],
  ['a header folded with a tab', get(LOGIN, 'X: a', '\tb')],
  ['white space before the first header', `GET ${LOGIN} HTTP/1.1\r\n Host: localhost\r\n\r\n`],
  ['bare line feeds', `GET ${LOGIN} HTTP/1.1\nHost: localhost\n\n`],
  ['a bare line feed between headers', `GET ${LOGIN} HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n`],
  ['a header name with a space', get(LOGIN, 'X Y: z')],
  ['a non-ASCII header name', get(LOGIN, 'X\u00e9: z')],
  ['a header list that ends early', `GET ${LOGIN} HTTP/1.1\r\nHost: localhost\r\n`],
  ...[
    ['Content-Length: 2', 'Transfer-Encoding: chunked'],
    ['Transfer-Encoding: chunked', 'Content-Length: 2'],
    ['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'],
    ...['chunked, gzip', 'chunked, chunked', 'xchunked'].map(it => [`Transfer-Encoding: ${it}`]),
  ].map((headers): Named => [headers.join(' and '), post([...headers, JSON_TYPE], '0\r\n\r\n')]),
  ['the lengths 2 and 3', json('{}', 'Content-Length: 3')],
  ['the length 2 twice', json('{}', 'Content-Length: 2')],
  ...['2, 2', '-1', '+2', '0x2', '2.0', '', '9'.repeat(23), '20'].map((length): Named => {
    return [`the length "${length}"`, post([`Content-Length: ${length}`, JSON_TYPE], '{}')]
  }),
  ['an unknown transfer coding', chunked('{}', 'cow')],
  ['compressed chunks', chunked('2\r\n{}\r\n0\r\n\r\n', 'gzip, chunked')],
  ...['x', '-2', '0x2', 'f'.repeat(17)].map(
    (size): Named => [`the chunk size "${size}"`, chunked(`${size}\r\n{}\r\n0\r\n\r\n`)],
  ),
  ['a chunk longer than its size', chunked('2\r\n{}xx\r\n0\r\n\r\n')],
  ['a chunk ended by a bare line feed', chunked('2\n{}\n0\n\n')],
  ['chunks that end early', chunked('2\r\n{}\r\n')],
  ['a repeated type', json('{}', 'Content-Type: text/plain')],
  ['a repeated equal type', json('{}', JSON_TYPE)],
  ['a repeated encoding', json('{}', 'Content-Encoding: identity', 'Content-Encoding: gzip')],
  ['a repeated Authorization', get(LOGIN, 'Authorization: a', 'Authorization: b')],
  // Wrong escapes, half a character, one in too many bytes.
  ...['/%', '/%zz', '/%e0%a4', '/%c0%af', '/a b'].map((path): Named => [path, get(path)]),
  ['a non-ASCII path', Buffer.from(`GET /\xff HTTP/1.1\r\n${HOST}\r\n\r\n`, 'latin1')],
  // RFC 10008: a query has a body, and must name its type.
  ['QUERY of an unknown address, without a type', method('QUERY', '/nothing')],
]

const UNKNOWN_PATHS = [
  ...['/login/', '/assets/', '/assets/login.css', '/assets/../login', '/nothing', '//'],
  ...[`/${LOGIN}`, `${LOGIN}/`, `${LOGIN}//`, LOGIN.toUpperCase(), `${LOGIN}%20`, `${LOGIN}%00`],
  ...[`${LOGIN};x`, '/api/v1/auth/../auth/login', '/api/v1/auth/%2e%2e/login', '/.git/config'],
  ...['/..%2f..%2fetc/passwd', '/.env', '/metrics', '/livez', '/api/v2/auth/login'],
  ...['/%F0%9F%94%91', `/${'a'.repeat(5000)}`],
]

/** CONNECT has a case of its own. */
const NOT_ALLOWED = METHODS.filter(name => name !== 'POST' && name !== 'CONNECT')

const REFUSED_TYPES = [
  ...['text/plain', 'text/json', 'application/jsonx', 'application/x-www-form-urlencoded'],
  ...['multipart/form-data; boundary=x', 'application/xml', 'application/problem+json'],
  ...['application/json+x', '*/*', 'json', ' ', 'application/json, text/plain'],
]

const INVALID_JSON = [
  ...['{', "{'email':'a'}", '{"email":"a","password":"b",}', '{/**/}', '{"email":NaN}', '-'],
  ...['{"email":"\u0001","password":"x"}', '\uFEFF\uFEFF{}', ' '.repeat(100), '\0'],
  '{"__proto__":{"email":"a"},"email":"a","password":"b"}',
  '{"\\u005f_proto__":{},"email":"a","password":"b"}',
  '{"constructor":{"prototype":{}},"email":"a","password":"b"}',
]
const CODES_OF_OTHER_TYPES = ['5', 'null', 'true', '["123456"]', '{"toString":"123456"}']
const INVALID_BODIES: Named[] = [
  ...INVALID_JSON.map(named),
  ...CODES_OF_OTHER_TYPES.map(otp => named(`{"email":"a","password":"b","otp":${otp}}`)),
  ['UTF-16', Buffer.from('{"email":"a","password":"b"}', 'utf16le')],
  ['overlong UTF-8', Buffer.from([0x7b, 0xc0, 0x80, 0x7d])],
  ['an encoded surrogate', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
  ['truncated UTF-8', Buffer.from([0x22, 0xf0, 0x9f, 0x94])],
  ['16,000 open brackets', '['.repeat(16_000)],
  ['8,000 nested lists', '['.repeat(8_000) + ']'.repeat(8_000)],
  ['2,000 nested objects', `${'{"a":'.repeat(2_000)}1${'}'.repeat(2_000)}`],
  ['1,500 keys', `{${Array.from({ length: 1_500 }, (_, i) => `"${i}":0`).join(',')}}`],
  ['a number of 16,000 digits', '9'.repeat(16_000)],
]

const CASES_BY_ANSWER: Record<string, Named[]> = {
  '400 BAD_REQUEST': BAD_REQUEST,
  '404 NOT_FOUND': [
    ...UNKNOWN_PATHS.map((path): Named => [`the path ${path.slice(0, 40)}`, get(path)]),
    ...NOT_ALLOWED.filter(name => name !== 'QUERY').map(
      (name): Named => [`the method ${name} of an unknown address`, method(name, '/nothing')],
    ),
    ['OPTIONS of everything', lines('OPTIONS * HTTP/1.1', HOST)],
    ['everything', lines('GET * HTTP/1.1', HOST)],
  ],
  '405 METHOD_NOT_ALLOWED': [
    ...NOT_ALLOWED.map((name): Named => [`the method ${name}`, method(name)]),
    ['CONNECT', lines('CONNECT localhost:443 HTTP/1.1', HOST)],
    ['an upgrade to WebSocket', get(LOGIN, 'Connection: Upgrade', 'Upgrade: websocket')],
    ['an upgrade to HTTP/2', get(LOGIN, 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c')],
    ['an address of another host', lines(`GET http://evil.example${LOGIN} HTTP/1.1`, HOST)],
    ['HTTP/1.0 without a Host', lines(`GET ${LOGIN} HTTP/1.0`)],
    ['100 headers', get(LOGIN, ...Array.from({ length: 99 }, () => 'X: y'))],
  ],
  '415 UNSUPPORTED_MEDIA_TYPE': [
    ...REFUSED_TYPES.map((type): Named => [`the type "${type}"`, ofType(type)]),
    ['OPTIONS with a body', `${lines('OPTIONS /nothing HTTP/1.1', HOST, 'Content-Length: 2')}{}`],
    ['gzip', json('{}', 'Content-Encoding: gzip')],
    ['an unknown encoding', json('{}', 'Content-Encoding: x')],
    ['a body without a type', sized('{}')],
    ['a long type', ofType(`application/json;${' '.repeat(240)}x`)],
  ],
  '417 EXPECTATION_FAILED': [['an unknown expectation', json('{}', 'Expect: miracles')]],
  '431 HEADERS_TOO_LARGE': [
    ['a long header', get(LOGIN, `X: ${'x'.repeat(20_000)}`)],
    ['a long header name', get(LOGIN, `${'X'.repeat(20_000)}: x`)],
    ['a long address', get(`/${'a'.repeat(20_000)}`)],
    ['4,000 headers', get(LOGIN, ...Array.from({ length: 4_000 }, () => 'X: y'))],
    ['101 headers', get(LOGIN, ...Array.from({ length: 100 }, () => 'X: y'))],
  ],
  '413 PAYLOAD_TOO_LARGE': [
    ['a body beyond the limit', json(' '.repeat(16 * 1024 + 1))],
    ['a length beyond the limit', post(['Content-Length: 1000000000', JSON_TYPE])],
    ['chunks beyond the limit', chunked(`5000\r\n${' '.repeat(0x5000)}\r\n0\r\n\r\n`)],
    ['long chunk extensions', chunked(`2;${'x'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`)],
  ],
  '400 VALIDATION_ERROR': [
    ...INVALID_BODIES.map(([name, body]): Named => [`a body of ${name}`, json(body)]),
    ['an empty chunked body', chunked('0\r\n\r\n')],
    ['a body at the limit', json(' '.repeat(16 * 1024))],
    ['a type with parameters', ofType('application/json;charset=utf-8')],
    ['a type in capitals', ofType('APPLICATION/JSON')],
    ['an identity encoding', json('{}', 'Content-Encoding: identity')],
    ['an announced continuation', json('{}', 'Expect: 100-continue')],
  ],
}

export const CASES = Object.entries(CASES_BY_ANSWER).flatMap(([answer, cases]) => {
  const [status, code = ''] = answer.split(' ')
  return cases.map(([name, bytes]): Case => [name, bytes, Number(status), code])
})
