// What must be true of a service whose machine is at a limit.
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import type { ServiceProcess } from '../../support/process.ts'
import { type Answer, countStatuses, PASSWORD } from '../../support/service.ts'

export const USER_EMAIL = 'kate@example.com'
export const BLOCK_SECONDS = 15 * 60

/** A right password is never refused, a wrong one never accepted, however the machine fails. */
export async function logIn(service: ServiceProcess): Promise<Answer | null> {
  const [right = null, wrong] = await Promise.all(
    [PASSWORD, 'wrong password'].map(password =>
      service.login(USER_EMAIL, password).catch(() => null),
    ),
  )
  if (right) assert.ok([200, 500, 503].includes(right.status), `right: ${right.status}`)
  if (wrong) assert.ok([401, 500, 503].includes(wrong.status), `wrong: ${wrong.status}`)
  return right
}

export const refreshTokenIn = ({ json }: Answer) => json.data.refreshToken

/** The token is replaced, and its repetition gets the same successor. */
export async function proveRefresh(service: ServiceProcess, refreshToken: string): Promise<string> {
  const refresh = { path: '/api/v1/auth/refresh', body: { refreshToken } }
  const [first, second] = [await service.call(refresh), await service.call(refresh)]
  assert.deepEqual([first.status, second.status], [200, 200])
  assert.notEqual(refreshTokenIn(first), refreshToken)
  assert.equal(refreshTokenIn(second), refreshTokenIn(first))
  return refreshTokenIn(first)
}

/** Of ten guesses five are verified. Returns the longest wait of the others, in seconds. */
export async function proveBlock(service: ServiceProcess, email: string): Promise<number> {
  const answers = []
  for (let i = 0; i < 10; i++) answers.push(await service.login(email, `guess ${i}`))
  assert.deepEqual(countStatuses(answers), { 401: 5, 429: 5 })
  return Math.max(...answers.map(({ headers }) => Number(headers['retry-after'] ?? 0)))
}

/** Why the last request failed, as the log says. */
export function reasonOf(service: ServiceProcess): string {
  const failed = service.lines().filter(({ event, err }) => event === 'request.failed' && err)
  return failed.at(-1)?.err?.message ?? ''
}

/** The service ends what it has begun. */
export async function endGracefully(service: ServiceProcess): Promise<void> {
  service.kill('SIGTERM')
  await service.exit
  const events = service.lines().map(({ event }) => event)
  assert.ok(events.includes('service.stopped'), service.output().slice(-2_000))
  assert.ok(!events.includes('service.cut_off'))
}

export function openConnection({ url }: ServiceProcess, index: number): Socket {
  const { hostname, port } = new URL(url)
  const localAddress = `127.0.7.${(index % 8) + 1}`
  return connect({ host: hostname, port: Number(port), localAddress }).on('error', () => {})
}
