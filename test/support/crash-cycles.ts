// Services that are killed by SIGKILL while they answer logins, one after the other.
import assert from 'node:assert/strict'
import { decodeJwt } from 'jose'
import { type Deployment, type ServiceProcess, until } from './process.ts'
import { UNLIMITED } from './service.ts'

const EMAILS = Array.from({ length: 4 }, (_, index) => `user${index}@example.com`)
const ANSWERS_PER_CYCLE = 10

export async function proveNoAnswerIsLost(deployment: Deployment, cycles: number): Promise<void> {
  for (const email of EMAILS) await deployment.addUser(email)
  const answered: string[] = []
  let starting = deployment.start(UNLIMITED)
  for (let cycle = 1; cycle <= cycles; cycle++) {
    const service = await starting
    // The next service starts meanwhile: several may use one database.
    if (cycle < cycles) starting = deployment.start(UNLIMITED)
    const enough = answered.length + ANSWERS_PER_CYCLE
    const clients = EMAILS.map(email => logInUntilKilled(service, email, answered))
    await until(async () => answered.length >= enough)
    await kill(service)
    await Promise.all(clients)
  }
  const rows = await deployment.database.rows('select id from refresh_tokens')
  const stored = new Set(rows.map(({ id }) => id))
  assert.ok(answered.length >= cycles * ANSWERS_PER_CYCLE)
  assert.deepEqual(
    answered.filter(id => !stored.has(id)),
    [],
  )
}

async function logInUntilKilled(
  service: ServiceProcess,
  email: string,
  answered: string[],
): Promise<void> {
  for (;;) {
    const answer = await service.login(email).catch(() => null)
    if (!answer) return
    assert.equal(answer.status, 200)
    answered.push(String(decodeJwt(answer.json.data.refreshToken).jti))
  }
}

export async function kill(service: ServiceProcess): Promise<void> {
  service.kill('SIGKILL')
  assert.equal((await service.exit).signal, 'SIGKILL')
}
