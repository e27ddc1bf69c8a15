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
const json = (body: string | Buffer) => sized(body, JSON_TYPE)
const chunked = (body: string, ...headers: string[]) =>
  post(['Transfer-Encoding: chunked', JSON_TYPE, ...headers], body)

const BAD_REQUEST: [string, string | Buffer][] = [
  ['random text', 'hello\r\n\r\n'],
  ['a NUL byte', '\0\r\n\r\n'],
  ['a TLS record inside TLS', Buffer.from('160301020001000100', 'hex')],
  ['an HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['an SSH greeting', 'SSH-2.0-OpenSSH_9.6\r\n'],
  ['an SMTP greeting', 'EHLO localhost\r\n'],
  ['HTTP/0.9', 'GET /\r\n\r\n'],
  ['HTTP/3.0', lines('GET / HTTP/3.0', HOST)],
  ['HTTP/1.2', lines('GET / HTTP/1.2', HOST)],
  ['no version', lines('GET /', HOST)],
  ['a lower-case method', lines(`post ${LOGIN} HTTP/1.1`, HOST)],
  ['a made-up method', lines(`STEAL ${LOGIN} HTTP/1.1`, HOST)],
  ['a tab after the method', lines(`GET\t${LOGIN} HTTP/1.1`, HOST)],
  ['no Host', lines(`GET ${LOGIN} HTTP/1.1`)],
  ['two Hosts', lines(`GET ${LOGIN} HTTP/1.1`, HOST, 'Host: evil.example')],
  ['two equal Hosts', lines(`GET ${LOGIN} HTTP/1.1`, HOST, HOST)],
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
  ['an underlined header name with a space', get(LOGIN, 'X Y: z')],
  ['a non-ASCII header name', get(LOGIN, 'X\u00e9: z')],
  ['a header list that ends early', `GET ${LOGIN} HTTP/1.1\r\nHost: localhost\r\n`],
  ['a request line that ends early', `GET ${LOGIN}`],
  [
    'length and chunks',
    post(['Content-Length: 2', 'Transfer-Encoding: chunked', JSON_TYPE], '0\r\n\r\n'),
  ],
  [
    'chunks and length',
    post(['Transfer-Encoding: chunked', 'Content-Length: 2', JSON_TYPE], '0\r\n\r\n'),
  ],
  ['two lengths', post(['Content-Length: 2', 'Content-Length: 3', JSON_TYPE], '{}')],
  ['two equal lengths', post(['Content-Length: 2', 'Content-Length: 2', JSON_TYPE], '{}')],
  ['a list of lengths', post(['Content-Length: 2, 2', JSON_TYPE], '{}')],
  ['a negative length', post(['Content-Length: -1', JSON_TYPE], '{}')],
  ['a signed length', post(['Content-Length: +2', JSON_TYPE], '{}')],
  ['a hexadecimal length', post(['Content-Length: 0x2', JSON_TYPE], '{}')],
  ['a fractional length', post(['Content-Length: 2.0', JSON_TYPE], '{}')],
  ['an empty length', post(['Content-Length:', JSON_TYPE], '{}')],
  ['a length beyond 64 bits', post(['Content-Length: 99999999999999999999999', JSON_TYPE], '{}')],
  ['a body shorter than its length', post(['Content-Length: 20', JSON_TYPE], '{}')],
  ['an unknown transfer coding', post(['Transfer-Encoding: cow', JSON_TYPE], '{}')],
  [
    'compressed chunks',
    post(['Transfer-Encoding: gzip, chunked', JSON_TYPE], '2\r\n{}\r\n0\r\n\r\n'),
  ],
  ['chunked that is not last', post(['Transfer-Encoding: chunked, gzip', JSON_TYPE], '0\r\n\r\n')],
  ['chunked twice', post(['Transfer-Encoding: chunked, chunked', JSON_TYPE], '0\r\n\r\n')],
  [
    'two transfer codings',
    post(['Transfer-Encoding: chunked', 'Transfer-Encoding: identity', JSON_TYPE], '0\r\n\r\n'),
  ],
  ['a disguised transfer coding', post(['Transfer-Encoding: xchunked', JSON_TYPE], '0\r\n\r\n')],
  ['a chunk size that is no number', chunked('x\r\n{}\r\n0\r\n\r\n')],
  ['a negative chunk size', chunked('-2\r\n{}\r\n0\r\n\r\n')],
  ['a chunk size with 0x', chunked('0x2\r\n{}\r\n0\r\n\r\n')],
  ['a chunk size beyond 64 bits', chunked('fffffffffffffffff\r\n{}\r\n0\r\n\r\n')],
  ['a chunk longer than its size', chunked('2\r\n{}xx\r\n0\r\n\r\n')],
  ['a chunk ended by a bare line feed', chunked('2\n{}\n0\n\n')],
  ['chunks that end early', chunked('2\r\n{}\r\n')],
  ['a repeated type', sized('{}', JSON_TYPE, 'Content-Type: text/plain')],
  ['a repeated equal type', sized('{}', JSON_TYPE, JSON_TYPE)],
  [
    'a repeated encoding',
    sized('{}', JSON_TYPE, 'Content-Encoding: identity', 'Content-Encoding: gzip'),
  ],
  ['a repeated Authorization', get(LOGIN, 'Authorization: a', 'Authorization: b')],
  ['half an escape in the path', get('/%')],
  ['a wrong escape in the path', get('/%zz')],
  ['an escape of half a character', get('/%e0%a4')],
  ['an overlong escape', get('/%c0%af')],
  ['a space in the path', get('/a b')],
  ['a non-ASCII path', Buffer.from(`GET /\xff HTTP/1.1\r\n${HOST}\r\n\r\n`, 'latin1')],
]

const NOT_FOUND = [
  '/login/',
  '/assets/',
  '/assets/login.css',
  '/assets/../login',
  '/nothing',
  '//',
  `/${LOGIN}`,
  `${LOGIN}/`,
  `${LOGIN}//`,
  LOGIN.toUpperCase(),
  `${LOGIN}%20`,
  `${LOGIN}%00`,
  `${LOGIN};x`,
  '/api/v1/auth/../auth/login',
  '/api/v1/auth/%2e%2e/login',
  '/..%2f..%2fetc/passwd',
  '/.git/config',
  '/.env',
  '/metrics',
  '/livez',
  '/api/v2/auth/login',
  '/%F0%9F%94%91',
  `/${'a'.repeat(5000)}`,
]

/** CONNECT has a case of its own. */
const NOT_ALLOWED = METHODS.filter(name => name !== 'POST' && name !== 'CONNECT')

const REFUSED_TYPES = [
  ...['text/plain', 'text/json', 'application/jsonx', 'application/x-www-form-urlencoded'],
  ...['multipart/form-data; boundary=x', 'application/xml', 'application/problem+json'],
  ...['application/json+x', '*/*', 'json', ' ', 'application/json, text/plain'],
]

const INVALID_BODIES: [string, string | Buffer][] = [
  ['an open brace', '{'],
  ['a single quote', "{'email':'a'}"],
  ['a trailing comma', '{"email":"a","password":"b",}'],
  ['a comment', '{/**/}'],
  ['NaN', '{"email":NaN}'],
  ['a lone minus', '-'],
  ['a control character in a string', '{"email":"\u0001","password":"x"}'],
  ['two byte-order marks', '\uFEFF\uFEFF{}'],
  ['UTF-16', Buffer.from('{"email":"a","password":"b"}', 'utf16le')],
  ['overlong UTF-8', Buffer.from([0x7b, 0xc0, 0x80, 0x7d])],
  ['an encoded surrogate', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
  ['truncated UTF-8', Buffer.from([0x22, 0xf0, 0x9f, 0x94])],
  ['16,000 open brackets', '['.repeat(16_000)],
  ['8,000 nested lists', '['.repeat(8_000) + ']'.repeat(8_000)],
  ['2,000 nested objects', `${'{"a":'.repeat(2_000)}1${'}'.repeat(2_000)}`],
  ['2,000 keys', `{${Array.from({ length: 1_500 }, (_, i) => `"${i}":0`).join(',')}}`],
  ['a number of 16,000 digits', '9'.repeat(16_000)],
  ['a prototype', '{"__proto__":{"email":"a"},"email":"a","password":"b"}'],
  ['an escaped prototype', '{"\\u005f_proto__":{},"email":"a","password":"b"}'],
  ['a constructor’s prototype', '{"constructor":{"prototype":{}},"email":"a","password":"b"}'],
  ['nothing but spaces', ' '.repeat(100)],
  ['a NUL', '\0'],
]

const OTHERS: Record<string, [name: string, bytes: string | Buffer][]> = {
  '405 METHOD_NOT_ALLOWED': [
    ['CONNECT', lines('CONNECT localhost:443 HTTP/1.1', HOST)],
    ['an upgrade to WebSocket', get(LOGIN, 'Connection: Upgrade', 'Upgrade: websocket')],
    ['an upgrade to HTTP/2', get(LOGIN, 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c')],
    [
      'an absolute address of another host',
      lines(`GET http://evil.example${LOGIN} HTTP/1.1`, HOST),
    ],
    ['HTTP/1.0 without a Host', lines(`GET ${LOGIN} HTTP/1.0`)],
    ['100 headers', get(LOGIN, ...Array.from({ length: 99 }, () => 'X: y'))],
  ],
  '415 UNSUPPORTED_MEDIA_TYPE': [
    [
      'OPTIONS of an unknown address, with a body',
      lines('OPTIONS /nothing HTTP/1.1', HOST, 'Content-Length: 2').concat('{}'),
    ],
    ['gzip', sized('{}', JSON_TYPE, 'Content-Encoding: gzip')],
    ['an unknown encoding', sized('{}', JSON_TYPE, 'Content-Encoding: x')],
    ['a body without a type', sized('{}')],
    ['a long type', sized('{}', `Content-Type: application/json;${' '.repeat(240)}x`)],
  ],
  '404 NOT_FOUND': [
    ['OPTIONS of everything', lines('OPTIONS * HTTP/1.1', HOST)],
    ['everything', lines('GET * HTTP/1.1', HOST)],
  ],
  '417 EXPECTATION_FAILED': [
    ['an unknown expectation', post(['Expect: miracles', 'Content-Length: 2', JSON_TYPE], '{}')],
  ],
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
    ['an empty chunked body', chunked('0\r\n\r\n')],
    ['a body at the limit', json(' '.repeat(16 * 1024))],
    [
      'credentials in the address',
      post([]).toString().replace(LOGIN, `${LOGIN}?email=a&password=b`),
    ],
    ['a type with parameters', sized('{}', 'Content-Type: application/json;charset=utf-8')],
    ['a type in capitals', sized('{}', 'Content-Type: APPLICATION/JSON')],
    ['an identity encoding', sized('{}', JSON_TYPE, 'Content-Encoding: identity')],
    ['an announced continuation', sized('{}', JSON_TYPE, 'Expect: 100-continue')],
  ],
}

export const CASES: Case[] = [
  ...BAD_REQUEST.map(([name, bytes]): Case => [name, bytes, 400, 'BAD_REQUEST']),
  ...NOT_FOUND.map((path): Case => [`the path ${path.slice(0, 40)}`, get(path), 404, 'NOT_FOUND']),
  ...NOT_ALLOWED.map(
    (name): Case => [`the method ${name}`, method(name), 405, 'METHOD_NOT_ALLOWED'],
  ),
  ...NOT_ALLOWED.filter(name => name !== 'QUERY').map(
    (name): Case => [
      `the method ${name} of an unknown address`,
      method(name, '/nothing'),
      404,
      'NOT_FOUND',
    ],
  ),
  // RFC 10008: a query has a body, and must name its type.
  ['QUERY of an unknown address, without a type', method('QUERY', '/nothing'), 400, 'BAD_REQUEST'],
  ...REFUSED_TYPES.map(
    (type): Case => [
      `the type "${type}"`,
      sized('{}', `Content-Type: ${type}`),
      415,
      'UNSUPPORTED_MEDIA_TYPE',
    ],
  ),
  ...INVALID_BODIES.map(
    ([name, body]): Case => [`a body of ${name}`, json(body), 400, 'VALIDATION_ERROR'],
  ),
  ...Object.entries(OTHERS).flatMap(([answer, cases]) => {
    const [status, code = ''] = answer.split(' ')
    return cases.map(([name, bytes]): Case => [name, bytes, Number(status), code])
  }),
]
