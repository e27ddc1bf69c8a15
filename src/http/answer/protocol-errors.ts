// What never becomes a request still gets an answer: the same envelope and headers, written by hand
// to the connection, which is then closed.
import { randomUUID } from 'node:crypto'
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { type FailureCode, failureText, statusOf } from './envelope.ts'
import { PROTECTIVE_HEADERS } from './headers.ts'

/** So long a caller has to read the answer. */
const LINGER_MS = 1_000

const CODE_OF: Record<string, FailureCode> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'REQUEST_TIMEOUT',
  HPE_HEADER_OVERFLOW: 'HEADERS_TOO_LARGE',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'PAYLOAD_TOO_LARGE',
}

/** What OpenSSL says of a method's name where a handshake should be. */
const PLAIN_HTTP = ['ERR_SSL_HTTP_REQUEST', 'ERR_SSL_HTTPS_PROXY_REQUEST']

export function createProtocolErrors() {
  const responses = new WeakMap<Socket, ServerResponse>()
  const answered = new WeakSet<Socket>()

  function hangUp(socket: Socket, code: FailureCode): void {
    answered.add(socket)
    socket.on('error', () => socket.destroy())
    socket.end(rawAnswer(code))
    linger(socket)
  }

  return {
    onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
      if (answered.has(socket)) return
      const current = responses.get(socket)
      const isAnswering = current?.headersSent === true && !current.writableFinished
      // Without a handshake there is no way to answer, and waiting for one would never end.
      const isDeaf = error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT' || !socket.writable
      if (PLAIN_HTTP.includes(error.code ?? '')) answerInClear(socket)
      else if (isDeaf) socket.destroy()
      else if (isAnswering) {
        // The answer under way is the last one.
        answered.add(socket)
        current.once('finish', () => socket.end())
        linger(socket)
      } else hangUp(socket, CODE_OF[error.code ?? ''] ?? 'BAD_REQUEST')
    },
    attach(server: Server): void {
      server.on('request', (request: IncomingMessage, response: ServerResponse) => {
        responses.set(request.socket, response)
      })
      server.on('connect', (_request: IncomingMessage, socket: Socket) => {
        hangUp(socket, 'METHOD_NOT_ALLOWED')
      })
      // Any expectation but "100-continue": routed like every request, and refused there.
      server.on('checkExpectation', (request, response) =>
        server.emit('request', request, response),
      )
    },
  }
}

/**
 * Bytes that are still on their way would meet a closed socket, whose reset takes the answer with it:
 * they are read, and nothing is made of them.
 */
function linger(socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref()
  socket.resume().once('close', () => clearTimeout(timer))
}

/**
 * For http:// on the TLS port. Node closes the connection at the end of this turn, so the answer, which
 * fits into the socket's buffer, is written at once.
 */
function answerInClear(encrypted: Socket): void {
  // Node documents no way from a TLS socket to the one below; without it the caller gets no answer.
  const plain: unknown = Reflect.get(encrypted, '_parent')
  if (!(plain instanceof Socket)) return
  // RFC 6797 7.2: a host must not send this header over plain HTTP.
  const { 'strict-transport-security': _, ...headers } = PROTECTIVE_HEADERS
  plain.on('error', () => plain.destroy()).write(rawAnswer('BAD_REQUEST', headers))
}

function rawAnswer(code: FailureCode, protectiveHeaders = PROTECTIVE_HEADERS): string {
  const status = statusOf(code)
  const body = failureText(code)
  const headers = {
    ...protectiveHeaders,
    'X-Request-ID': randomUUID(),
    ...(code === 'METHOD_NOT_ALLOWED' && { Allow: 'GET, POST, DELETE' }),
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    Connection: 'close',
    Date: new Date().toUTCString(),
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n')
}
