// One keep-alive HTTP/1.1 connection with little processor time, which the measured service needs.
import net from 'node:net'
import tls from 'node:tls'

/** With a certificate: TLS that trusts only this certificate. Without: plain HTTP. */
export type Target = { port: number; certificate: Buffer | null }

export type Answer = {
  /** 0 if the connection broke before an answer. */
  status: number
  retryAfterSeconds: number
  head: Buffer
  body: Buffer
}

/** Twice the time of a hundred hashes in one thread on a slow machine. */
const ANSWER_TIMEOUT_MS = 300_000
const END_OF_HEAD = '\r\n\r\n'
const END_OF_CHUNKS = '0\r\n\r\n'
const NOTHING = Buffer.alloc(0)
const NO_ANSWER: Answer = { status: 0, retryAfterSeconds: 0, head: NOTHING, body: NOTHING }

/** A request that can be sent any number of times. */
export function post(path: string, body: object, moreHeaders = ''): Buffer {
  const json = JSON.stringify(body)
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
      `${moreHeaders}Content-Length: ${Buffer.byteLength(json)}\r\n\r\n${json}`,
  )
}

export function get(path: string, moreHeaders = ''): Buffer {
  return Buffer.from(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${moreHeaders}\r\n`)
}

export class Connection {
  readonly #target: Target
  readonly #localAddress: string
  #socket: net.Socket | null = null
  #received: Buffer = NOTHING
  #answered: ((answer: Answer) => void) | null = null

  constructor(target: Target, localAddress: string) {
    this.#target = target
    this.#localAddress = localAddress
  }

  /** One request at a time. If the server closed the kept connection, the request is sent once more. */
  async send(request: Buffer): Promise<Answer> {
    const isKept = this.#socket !== null
    const answer = await this.#exchange(request)
    return answer.status === 0 && isKept ? this.#exchange(request) : answer
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = null
  }

  #exchange(request: Buffer): Promise<Answer> {
    return new Promise(resolve => {
      this.#answered = resolve
      this.#socket ??= this.#connect()
      this.#socket.write(request)
    })
  }

  #connect(): net.Socket {
    const { port, certificate } = this.#target
    const place = { host: '127.0.0.1', port, localAddress: this.#localAddress }
    const socket = certificate
      ? tls.connect({ ...place, ca: certificate, servername: 'localhost' })
      : net.connect(place)
    this.#received = NOTHING
    socket.setNoDelay(true)
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => socket.destroy())
    socket.on('data', chunk => this.#receive(chunk))
    // The close event follows, and reports the fault as an answer of status 0.
    socket.on('error', () => {})
    socket.on('close', () => {
      if (this.#socket !== socket) return
      this.#socket = null
      this.#answer(NO_ANSWER)
    })
    return socket
  }

  #receive(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk])
    const headLength = this.#received.indexOf(END_OF_HEAD)
    if (headLength < 0) return
    const head = this.#received.subarray(0, headLength)
    const headers = head.toString('latin1').toLowerCase()
    const body = this.#received.subarray(headLength + END_OF_HEAD.length)
    if (!isComplete(headers, body)) return
    this.#received = NOTHING
    if (headers.includes('\r\nconnection: close')) this.close()
    this.#answer({
      status: Number(headers.slice(9, 12)),
      retryAfterSeconds: Number(/\r\nretry-after: (\d+)/.exec(headers)?.[1] ?? 0),
      head,
      body,
    })
  }

  #answer(answer: Answer): void {
    const answered = this.#answered
    this.#answered = null
    answered?.(answer)
  }
}

function isComplete(headers: string, body: Buffer): boolean {
  if (!headers.includes('\r\ntransfer-encoding: chunked')) {
    return body.length >= Number(/\r\ncontent-length: (\d+)/.exec(headers)?.[1] ?? 0)
  }
  const end = body.length - END_OF_CHUNKS.length
  return end >= 0 && body.indexOf(END_OF_CHUNKS, end) === end
}
