// Half-sent bodies of one client over HTTP/2, and logins of others beside them.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type ClientHttp2Session, connect } from 'node:http2'
import { inParallel } from '../support/own.ts'
import { countStatuses, type createClient, LOGIN, PASSWORD } from '../support/service.ts'

type Proxy = { url: string; call: Awaited<ReturnType<typeof createClient>>['call'] }

const HEADERS = { ':method': 'POST', ':path': LOGIN, 'Content-Type': 'application/json' }
const LOGINS = 25

/** At least `count` half-sent bodies. */
export async function assertHarmless({ url, call }: Proxy, email: string, count: number) {
  const options = { rejectUnauthorized: false, localAddress: '127.0.0.2' }
  const attackers: ClientHttp2Session[] = []
  for (let sent = 0; sent < count; ) {
    const attacker = connect(url, options).on('error', () => {})
    attackers.push(attacker)
    const [{ maxConcurrentStreams }] = await once(attacker, 'remoteSettings')
    for (let i = 0; i < maxConcurrentStreams; i++) sendHalf(attacker)
    sent += maxConcurrentStreams
    // Its answer comes after the proxy has read the bodies.
    await new Promise(resolve => attacker.ping(resolve))
  }
  const body = { email, password: PASSWORD }
  const answers = await inParallel(LOGINS, index => call({ from: `127.0.1.${index + 1}`, body }))
  for (const attacker of attackers) attacker.destroy()
  assert.deepEqual(countStatuses(answers), { 200: LOGINS })
}

function sendHalf(attacker: ClientHttp2Session): void {
  const stream = attacker.request({ ...HEADERS, 'Content-Length': 100 }, { endStream: false })
  stream.on('error', () => {}).resume()
  stream.write('{')
}
