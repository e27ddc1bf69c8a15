// Logins and the throttle after the process was killed by SIGKILL.
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { decodeJwt } from 'jose'
import { createAuthenticator, SECOND_FACTOR } from '../support/authenticator.ts'
import { ENGINES } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import { createDeployment, type ServiceProcess, until } from '../support/process.ts'
import { casesOf } from '../support/proof.ts'
import { PASSWORD, UNLIMITED, WITH_THREADS } from '../support/service.ts'
import { withSlowDisk } from '../support/slow-disk.ts'

const CYCLES = casesOf(12)
const ANSWERS_PER_CYCLE = 10
/** Each commit of SQLite takes so long that the logins of the other clients wait for it, and share the next one. */
const SLOW_MS = 30
const EMAILS = ['a', 'b', 'c', 'd'].map(name => `${name}@example.com`)

async function kill(service: ServiceProcess): Promise<void> {
  service.kill('SIGKILL')
  assert.equal((await service.exit).signal, 'SIGKILL')
}

// Both engines at the same time: starting processes takes most of the time.
describe('after kill -9', { concurrency: true }, () => {
  for (const engine of ENGINES) {
    describe(`on ${engine}`, { concurrency: false }, async () => {
      const deployment = await own(createDeployment(engine, WITH_THREADS))
      for (const email of EMAILS) await deployment.addUser(email)

      test('an attempt that was being verified stays pending and becomes a failure', async () => {
        const throttleRows = () =>
          deployment.database.rows(
            'select scope, failures, pending from login_throttle order by scope',
          )
        const [email = ''] = EMAILS
        const budget = { THROTTLE_PAIR_FAILURES: '1' }
        let answer: unknown
        // An attempt that was over before the kill is tried again with a slower hash.
        for (const cost of [13, 14, 15]) {
          await deployment.database.rows('delete from login_throttle')
          const killed = await deployment.start({ BCRYPT_COST: String(cost), ...budget })
          const login = killed.login(email, 'wrong password').catch(() => 'cut off')
          await until(async () => (await throttleRows()).length === 3)
          await kill(killed)
          answer = await login
          if ((await throttleRows()).some(({ pending }) => pending === 1)) break
        }
        assert.equal(answer, 'cut off')
        assert.deepEqual(
          (await throttleRows()).map(row => ({ ...row })),
          ['client', 'email', 'pair'].map(scope => ({ scope, failures: 0, pending: 1 })),
        )

        const restarted = await deployment.start(budget)
        const waiting = restarted.login(email)
        const first = await Promise.race([waiting, setTimeout(300, 'still waiting')])
        assert.equal(first, 'still waiting', 'the pending attempt uses the whole budget')
        await deployment.database.rows(
          "update login_throttle set lease_ends_at = '2020-01-01T00:00:00.000Z'",
        )
        assert.equal((await waiting).status, 429)
        await kill(restarted)
        await deployment.database.rows('delete from login_throttle')
      })

      test('a block is in force; a changed password is the old one or the new one, and after an answer the new one', async () => {
        await deployment.addUser('locked@example.com')
        const killed = await deployment.start()
        const guesses = await inParallel(5, () => killed.login('locked@example.com', 'wrong'))
        for (const { status } of guesses) assert.equal(status, 401)
        assert.equal((await killed.login('locked@example.com')).status, 429)
        let answered = 0
        const changing = EMAILS.map(async email => {
          for (let current = PASSWORD, i = 0; ; i++) {
            const newPassword = `${email} number ${i}`
            const body = { email, currentPassword: current, newPassword }
            const call = killed.call({ path: '/api/v1/auth/password', body })
            const answer = await call.catch(() => null)
            if (!answer) return { email, current, newPassword }
            assert.equal(answer.status, 200)
            current = newPassword
            answered++
          }
        })
        await until(async () => answered >= 20)
        await kill(killed)
        const restarted = await deployment.start()
        assert.equal((await restarted.login('locked@example.com')).status, 429)
        for (const { email, current, newPassword } of await Promise.all(changing)) {
          const answers = [
            await restarted.login(email, current),
            await restarted.login(email, newPassword),
          ]
          assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 401])
        }
        await kill(restarted)
      })

      test('a proof that let in is used up; one whose login was cut off is used up or good once', async () => {
        const slow = join(deployment.dataDir, 'slow-proofs')
        await writeFile(slow, String(SLOW_MS))
        const killed = await deployment.start({ ...UNLIMITED, ...withSlowDisk(slow) })
        const users = await Promise.all(
          EMAILS.map(async name => {
            const email = `proof-${name}`
            await deployment.addUser(email)
            const app = createAuthenticator(() => new Date())
            const body = { email, password: PASSWORD, secret: app.secret, newOtp: app.code() }
            const { json } = await killed.call({ path: SECOND_FACTOR, body })
            // The code of the next step is accepted, too, and is not used up.
            return { email, proofs: [app.code(1), ...(json.data.recoveryCodes ?? [])] }
          }),
        )
        const logIn = ({ call }: Pick<ServiceProcess, 'call'>, email: string, otp: string) =>
          call({ body: { email, password: PASSWORD, otp } })
        let answered = 0
        const loggingIn = users.map(async ({ email, proofs }) => {
          const used: string[] = []
          for (const otp of proofs) {
            const answer = await logIn(killed, email, otp).catch(() => null)
            if (!answer) return { email, used, cutOff: otp }
            assert.equal(answer.status, 200)
            used.push(otp)
            answered++
          }
          return { email, used, cutOff: null }
        })
        await until(async () => answered >= ANSWERS_PER_CYCLE)
        await kill(killed)
        const restarted = await deployment.start(UNLIMITED)
        for (const { email, used, cutOff } of await Promise.all(loggingIn)) {
          for (const otp of used) assert.equal((await logIn(restarted, email, otp)).status, 401)
          if (cutOff === null) continue
          const statuses = []
          for (let i = 0; i < 2; i++) statuses.push((await logIn(restarted, email, cutOff)).status)
          assert.equal(statuses[1], 401, statuses.join())
        }
        await kill(restarted)
      })

      test(`${CYCLES} times, under load: no answered login is lost`, async () => {
        const users = EMAILS.map(email => `again-${email}`)
        for (const email of users) await deployment.addUser(email)
        const slow = join(deployment.dataDir, 'slow')
        await writeFile(slow, String(SLOW_MS))
        const start = () => deployment.start({ ...UNLIMITED, ...withSlowDisk(slow) })
        const answered: string[] = []
        const logInUntilKilled = async (service: ServiceProcess, email: string) => {
          for (;;) {
            const answer = await service.login(email).catch(() => null)
            if (!answer) return
            assert.equal(answer.status, 200)
            answered.push(String(decodeJwt(answer.json.data.refreshToken).jti))
          }
        }
        let starting = start()
        for (let cycle = 1; cycle <= CYCLES; cycle++) {
          const service = await starting
          // The next service starts meanwhile: several may use one database.
          if (cycle < CYCLES) starting = start()
          const enough = answered.length + ANSWERS_PER_CYCLE
          const clients = users.map(email => logInUntilKilled(service, email))
          await until(async () => answered.length >= enough)
          await kill(service)
          await Promise.all(clients)
        }
        const rows = await deployment.database.rows('select id from refresh_tokens')
        const stored = new Set(rows.map(({ id }) => id))
        assert.ok(answered.length >= CYCLES * ANSWERS_PER_CYCLE)
        assert.deepEqual(
          answered.filter(id => !stored.has(id)),
          [],
        )
      })
    })
  }
})
