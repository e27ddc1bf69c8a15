// Sends raw bytes over TLS, including bytes that HTTP libraries refuse to send.
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { connect, createSecureContext, type TLSSocket } from 'node:tls'
import type { TestService } from './service.ts'

export type RawAnswer = { status: number; headers: Map<string, string>; body: string }

export async function createRawClient({ url, dataDir }: Pick<TestService, 'url' | 'dataDir'>) {
  const { hostname, port } = new URL(url)
  const ca = await readFile(join(dataDir, 'development-cert.pem'))
  const secureContext = createSecureContext({ ca })
  let session: Buffer | undefined

  async function open(): Promise<TLSSocket> {
    const socket = connect(Number(port), hostname, { secureContext, ...(session && { session }) })
    socket.allowHalfOpen = true
    socket.on('session', ticket => {
      session = ticket
    })
    await once(socket, 'secureConnect')
    return socket
  }

  async function exchange(bytes: string | Buffer, isLast = false): Promise<RawAnswer[]> {
    const socket = await open()
    if (isLast) socket.end(bytes)
    else socket.write(bytes)
    return answersOf(await receive(socket))
  }

  return {
    open,
    /** Keeps its side open, as clients do, and returns all answers until the service closes the connection. */
    exchange: (bytes: string | Buffer) => exchange(bytes),
    /** Ends its side after the bytes. */
    send: (bytes: string | Buffer) => exchange(bytes, true),
  }
}

/** All bytes until the other side closes. */
export async function receive(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = []
  socket.on('data', chunk => chunks.push(chunk))
  // Bytes that arrive after an early refusal make the other side reset the connection.
  socket.on('error', () => socket.destroy())
  socket.on('end', () => socket.end())
  await new Promise(resolve => socket.once('close', resolve))
  return Buffer.concat(chunks)
}

/** Reads answers strictly: each must be whole and framed by its length. */
export function answersOf(received: Buffer): RawAnswer[] {
  const answers: RawAnswer[] = []
  let rest = received
  while (rest.length > 0) {
    const headEnd = rest.indexOf('\r\n\r\n')
    if (headEnd === -1) throw new Error(`not an answer: ${rest.toString('latin1')}`)
    const [statusLine = '', ...lines] = rest.subarray(0, headEnd).toString('latin1').split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1])
    const headers = new Map(
      lines.map(line => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
      }),
    )
    const isInterim = status < 200
    const length = isInterim ? 0 : Number(headers.get('content-length') ?? Number.NaN)
    if (Number.isNaN(length)) throw new Error(`an answer without a length: ${statusLine}`)
    const body = rest.subarray(headEnd + 4).subarray(0, length)
    if (!isInterim) answers.push({ status, headers, body: body.toString() })
    rest = rest.subarray(headEnd + 4 + length)
  }
  return answers
}

const PROTECTIVE = [
  ...['x-request-id', 'strict-transport-security', 'content-security-policy', 'cache-control'],
]

/** Why an answer is not in the envelope, or null if it is. */
export function outsideEnvelope({ status, headers, body }: RawAnswer): string | null {
  if (status === 204 && body === '') return null
  const missing = PROTECTIVE.find(name => !headers.has(name))
  if (missing) return `no ${missing}`
  // The page is HTML, without the envelope.
  const isPage = headers.get('content-security-policy')?.startsWith("default-src 'self';")
  if (isPage && status === 200 && headers.get('content-type')?.startsWith('text/html')) return null
  if (headers.get('content-type') !== 'application/json; charset=utf-8') return 'not typed as JSON'
  try {
    const { success, data, error, keys } = JSON.parse(body)
    // The published keys are a JWK set, without the envelope.
    if (status < 400) return keys || (success === true && data) ? null : 'no data'
    return success === false && error.code && error.message ? null : 'no error object'
  } catch {
    return 'not JSON'
  }
}
