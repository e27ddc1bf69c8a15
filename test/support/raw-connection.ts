// Sends raw bytes over TLS, including bytes that HTTP libraries refuse to send.
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect, createSecureContext, type TLSSocket } from 'node:tls'
import type { TestService } from './service.ts'

export type RawAnswer = { status: number; headers: Map<string, string>; body: string }

export type RawClient = {
  open(): Promise<TLSSocket>
  /** Sends the bytes, ends its side, and returns all answers until the service closes. */
  send(bytes: string | Buffer): Promise<RawAnswer[]>
}

export async function createRawClient({
  url,
  dataDir,
}: Pick<TestService, 'url' | 'dataDir'>): Promise<RawClient> {
  const { hostname, port } = new URL(url)
  const secureContext = createSecureContext({
    ca: await readFile(join(dataDir, 'development-cert.pem')),
  })
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

  return {
    open,
    async send(bytes) {
      const socket = await open()
      socket.end(bytes)
      return answersOf(await receive(socket))
    },
  }
}

/** All bytes until the other side closes. */
export async function receive(socket: TLSSocket): Promise<Buffer> {
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
    const bodyStart = headEnd + 4
    if (!isInterim) {
      answers.push({
        status,
        headers,
        body: rest.subarray(bodyStart, bodyStart + length).toString(),
      })
    }
    rest = rest.subarray(bodyStart + length)
  }
  return answers
}

/** Why an answer is not in the envelope, or null if it is. */
export function outsideEnvelope({ status, headers, body }: RawAnswer): string | null {
  if (status === 204 && body === '') return null
  const required = [
    'x-request-id',
    'strict-transport-security',
    'content-security-policy',
    'cache-control',
  ]
  for (const name of required) if (!headers.has(name)) return `no ${name}`
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
