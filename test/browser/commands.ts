// Sends the commands of the W3C's WebDriver to a browser. Chromium and WebKit have drivers that take them
// over HTTP. Firefox takes them without a driver, in its own protocol: Marionette.
import { connect, type Socket } from 'node:net'

/** The names are Marionette's; the values are the methods and paths for HTTP. */
const COMMANDS = {
  DeleteSession: 'DELETE ',
  Navigate: 'POST /url',
  Refresh: 'POST /refresh',
  GetCurrentURL: 'GET /url',
  DeleteAllCookies: 'DELETE /cookie',
  SetWindowRect: 'POST /window/rect',
  NewWindow: 'POST /window/new',
  SwitchToWindow: 'POST /window',
  FindElement: 'POST /element',
  ElementClear: 'POST /element/{id}/clear',
  ElementClick: 'POST /element/{id}/click',
  ElementSendKeys: 'POST /element/{id}/value',
  ExecuteScript: 'POST /execute/sync',
  'WebAuthn:AddVirtualAuthenticator': 'POST /webauthn/authenticator',
}

export type Send = (
  command: keyof typeof COMMANDS,
  parameters?: Record<string, unknown>,
) => Promise<unknown>

/** WebKit's driver sometimes hangs on a busy machine, by default for five minutes at each command. */
const CAPABILITIES = { acceptInsecureCerts: true, timeouts: { pageLoad: 60_000 } }

/** One session of a driver on this port, with the given options for its browser. */
export async function openDriverSession(port: number, options: object): Promise<Send> {
  const capabilities = { alwaysMatch: { ...CAPABILITIES, ...options } }
  const opened = await request('POST', '', { capabilities })
  const { sessionId } = opened as { sessionId: string }
  return (command, parameters = {}) => {
    const [method = '', path = ''] = COMMANDS[command].split(' ')
    return request(method, `/${sessionId}${path.replace('{id}', `${parameters.id}`)}`, parameters)
  }

  async function request(method: string, path: string, parameters: object): Promise<unknown> {
    const response = await fetch(`http://127.0.0.1:${port}/session${path}`, {
      method,
      ...(method === 'POST' && { body: JSON.stringify(parameters) }),
    })
    const { value } = (await response.json()) as { value: Failure }
    if (!response.ok) throw new Error(`${value.error}: ${value.message}`)
    return value
  }
}

type Failure = { error: string; message: string }
type Reply = [1, number, Failure | null, Record<string, unknown>]

/** One session of a Firefox on this port. A command must be answered before the next is sent. */
export async function openFirefoxSession(port: number): Promise<Send> {
  const socket = connect(port, '127.0.0.1')
  const replies = readReplies(socket)
  // The first message is a greeting.
  await replies.next()
  await request('NewSession', CAPABILITIES)
  return request

  async function request(command: string, parameters: object = {}): Promise<unknown> {
    const name = command.includes(':') ? command : `WebDriver:${command}`
    const text = JSON.stringify([0, 0, name, parameters])
    socket.write(`${Buffer.byteLength(text)}:${text}`)
    const { value, done } = await replies.next()
    if (done) throw new Error('Firefox has closed the connection')
    const [, , failure, result] = value
    if (failure) throw new Error(`${failure.error}: ${failure.message}`)
    return 'value' in result ? result.value : result
  }
}

/** Each message is JSON with its length in bytes and a colon in front. */
async function* readReplies(socket: Socket): AsyncGenerator<Reply, void> {
  let received = Buffer.alloc(0)
  for await (const chunk of socket) {
    received = Buffer.concat([received, chunk])
    for (;;) {
      const start = received.indexOf(':') + 1
      const end = start + Number.parseInt(received.toString('latin1', 0, start), 10)
      if (start === 0 || received.length < end) break
      yield JSON.parse(received.toString('utf8', start, end))
      received = received.subarray(end)
    }
  }
}
