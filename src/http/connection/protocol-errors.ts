// Answers to bytes that never become a request: the same envelope and headers, written directly to the
// connection, which is then closed.
import { randomUUID } from 'node:crypto'
import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { type FailureCode, failureText, statusOf } from '../answer/envelope.ts'
import type { ProtectiveHeaders } from '../answer/headers.ts'
import { latestResponse } from './connections.ts'

const CODE_OF: Record<string, FailureCode> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'REQUEST_TIMEOUT',
  HPE_HEADER_OVERFLOW: 'HEADERS_TOO_LARGE',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'PAYLOAD_TOO_LARGE',
}

/** OpenSSL's error codes for an HTTP request in place of a TLS handshake. */
const PLAIN_HTTP = ['ERR_SSL_HTTP_REQUEST', 'ERR_SSL_HTTPS_PROXY_REQUEST']

/** The connections that have got their last answer, or are getting it. */
const answered = new WeakSet<Socket>()

/** Whether the error is that of an HTTP request on a TLS port. */
export function isPlainHttp({ code = '' }: NodeJS.ErrnoException): boolean {
  return PLAIN_HTTP.includes(code)
}

export type RawPage = { headers: Record<string, string>; body: string }

/** Answers what Node's parser refuses. */
export function answerClientError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  headers: ProtectiveHeaders,
  toTimeoutPage: (request: IncomingMessage) => RawPage | null = () => null,
): void {
  if (answered.has(socket)) return
  const current = latestResponse(socket)
  const isAnswering = current?.headersSent === true && !current.writableFinished
  // Without a finished handshake nothing can be sent.
  const isUnanswerable = error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT' || !socket.writable
  if (isPlainHttp(error)) answerInClear(socket, headers)
  else if (isUnanswerable) socket.destroy()
  else if (isAnswering) {
    // The answer that is being sent becomes the last one.
    answered.add(socket)
    current.once('finish', () => socket.destroySoon())
  } else {
    const code = CODE_OF[error.code ?? ''] ?? 'BAD_REQUEST'
    const isLate = code === 'REQUEST_TIMEOUT' && current?.req.complete === false
    hangUp(socket, code, headers, isLate ? toTimeoutPage(current.req) : null)
  }
}

/** Answers what Node does not pass to the router. */
export function answerUnrouted(server: Server, headers: ProtectiveHeaders): void {
  server.on('connect', (_request: IncomingMessage, socket: Socket) => {
    hangUp(socket, 'METHOD_NOT_ALLOWED', headers)
  })
  // Emitted for any expectation but "100-continue". The request is routed as usual and refused there.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
}

function hangUp(
  socket: Socket,
  code: FailureCode,
  headers: ProtectiveHeaders,
  page: RawPage | null = null,
): void {
  answered.add(socket)
  socket.on('error', () => socket.destroy())
  socket.write(rawAnswer(code, headers, page))
  socket.destroySoon()
}

/**
 * Answers http:// on the TLS port. Node closes the connection at the end of this turn, so the answer is
 * written at once; it fits into the socket's buffer.
 */
function answerInClear(encrypted: Socket, protective: ProtectiveHeaders): void {
  // `_parent` is undocumented. If Node removes it, the caller gets no answer.
  const plain: unknown = Reflect.get(encrypted, '_parent')
  if (!(plain instanceof Socket)) return
  // RFC 6797 7.2: a host must not send this header over plain HTTP.
  const { 'strict-transport-security': _, ...headers } = protective
  plain.on('error', () => plain.destroy()).write(rawAnswer('BAD_REQUEST', headers))
}

function rawAnswer(
  code: FailureCode,
  protectiveHeaders: ProtectiveHeaders,
  page: RawPage | null = null,
): string {
  const status = statusOf(code)
  const body = page?.body ?? failureText(code)
  const headers = {
    ...protectiveHeaders,
    'X-Request-ID': randomUUID(),
    ...(code === 'METHOD_NOT_ALLOWED' && { Allow: 'GET, POST, DELETE' }),
    'Content-Type': 'application/json; charset=utf-8',
    ...page?.headers,
    'Content-Length': Buffer.byteLength(body),
    Connection: 'close',
    Date: new Date().toUTCString(),
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n')
}
