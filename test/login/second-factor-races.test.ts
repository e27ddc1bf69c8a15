// Parallel logins with second factors at three instances with one database.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { wrapMethods } from '../../src/domain/operations.ts'
import type { Store } from '../../src/domain/store.ts'
import { byEmail, changeAt, toNumbers } from '../storage/fixtures.ts'
import {
  createAuthenticator,
  newUserWithApp,
  SECOND_FACTOR,
  STEP_MS,
} from '../support/authenticator.ts'
import { ENGINES } from '../support/engines.ts'
import { faultsIn, inParallel, own } from '../support/own.ts'
import { until } from '../support/process.ts'
import { casesOf } from '../support/proof.ts'
import { createRandom } from '../support/random.ts'
import {
  countStatuses,
  createAddresses,
  PASSWORD,
  startTestService,
  UNLIMITED,
} from '../support/service.ts'
import { AUTH } from '../support/session-client.ts'

const AT_ONCE = 20
const STORM = { clients: 12, steps: casesOf(60) }

for (const engine of ENGINES) {
  describe(`three instances on ${engine}`, async () => {
    /** Holds back the settling of attempts that were verified. */
    let beforeSuccess = async () => {}
    const hold = (store: Store) =>
      wrapMethods(store, (name, operation) => async (...values) => {
        if (name === 'attempts.succeed') await beforeSuccess()
        return operation(...values)
      })
    const start = (other: Parameters<typeof startTestService>[2] = null) =>
      startTestService(engine, UNLIMITED, other, undefined, hold)
    const first = await start()
    const instances = [first, await own(start(first)), await own(start(first))]
    after(first.stop)
    for (const instance of instances) {
      instance.stopClock({ after })
      instance.advance(first.now().getTime() - instance.now().getTime())
    }
    const newAddress = createAddresses()
    let calls = 0
    /** At the next instance, from a new address. */
    const call = (request: Parameters<typeof first.call>[0]) =>
      (instances[calls++ % instances.length] ?? first).call({ from: newAddress(), ...request })
    const advance = (ms: number) => {
      for (const instance of instances) instance.advance(ms)
    }
    const newUser = () => newUserWithApp({ ...first, call, advance }, newAddress)
    const login = (email: string, otp?: string) =>
      call({ body: { email, password: PASSWORD, otp } })
    const change = (email: string, body: object) =>
      call({ path: SECOND_FACTOR, body: { email, password: PASSWORD, ...body } })
    async function verifiedTogether<T>(count: number, make: (index: number) => Promise<T>) {
      await first.database.rows('delete from login_throttle')
      let waiting = 0
      beforeSuccess = async () => {
        waiting++
        await until(async () => waiting >= count)
      }
      const answers = await inParallel(count, make)
      beforeSuccess = async () => {}
      return answers
    }
    async function setUpTogether(email: string, otp?: string) {
      const apps = Array.from({ length: AT_ONCE }, () => createAuthenticator(first.now))
      const answers = await verifiedTogether(AT_ONCE, index => {
        const { secret = '', code } = apps[index] ?? {}
        return change(email, { otp, secret, newOtp: code?.() })
      })
      const index = answers.findIndex(({ status }) => status === 200)
      const winner = apps[index]
      assert.ok(winner)
      return { answers, winner, recoveryCodes: answers[index]?.json.data.recoveryCodes ?? [] }
    }
    const userOf = async (email: string) => {
      const user = await first.store.users.findByEmail(email)
      assert.ok(user)
      return user
    }
    /** All scopes of a kind together. */
    const countedIn = async (scope: string) => {
      const [row] = await first.database.rows(`select sum(failures) as failures,
        sum(pending) as pending from login_throttle where scope = '${scope}'`)
      return toNumbers(row)
    }
    type User = Awaited<ReturnType<typeof newUser>>
    const PROOFS: Record<string, (user: User) => string> = {
      code: ({ app }) => app.code(),
      'recovery code': ({ recoveryCodes: [code = ''] }) => code,
    }
    for (const [what, proofOf] of Object.entries(PROOFS)) {
      test(`of ${AT_ONCE} parallel logins with one ${what} exactly one succeeds; the others are failures, and no guesses`, async () => {
        const user = await newUser()
        const otp = proofOf(user)
        const answers = await verifiedTogether(AT_ONCE, () => login(user.email, otp))
        assert.deepEqual(countStatuses(answers), { 200: 1, 401: AT_ONCE - 1 })
        const { failedLoginAttempts, failedSecondSteps } = await userOf(user.email)
        // The first one to lock the user succeeds.
        assert.deepEqual([failedLoginAttempts, failedSecondSteps], [AT_ONCE - 1, 0])
        for (const scope of ['email', 'client', 'pair']) {
          assert.deepEqual(await countedIn(scope), { failures: AT_ONCE - 1, pending: 0 }, scope)
        }
        assert.equal((await login(user.email, otp)).status, 401)
        // That of the set-up and that of the login.
        const { id } = await userOf(user.email)
        assert.equal(await first.store.sessions.countLive(id, first.now()), 2)
      })
    }

    test(`of ${AT_ONCE} parallel replacements with one code exactly one succeeds, and its app is the factor`, async () => {
      const { email, app } = await newUser()
      const otp = app.code()
      const { answers, winner, recoveryCodes } = await setUpTogether(email, otp)
      assert.deepEqual(countStatuses(answers), { 200: 1, 401: AT_ONCE - 1 })
      assert.deepEqual(await countedIn('email'), { failures: AT_ONCE - 1, pending: 0 })
      // Its new code is used up by the set-up.
      assert.equal((await login(email, winner.code())).status, 401)
      advance(STEP_MS)
      assert.equal((await login(email, app.code())).status, 401)
      assert.equal((await login(email, winner.code())).status, 200)
      assert.equal((await login(email, recoveryCodes[0])).status, 200)
    })

    test(`of ${AT_ONCE} first set-ups at once one succeeds; the others change nothing, and are released, because their password was right`, async () => {
      const email = await first.newUser()
      const { answers, winner } = await setUpTogether(email)
      assert.deepEqual(countStatuses(answers), { 200: 1, 401: AT_ONCE - 1 })
      const { id, factorsVersion } = await userOf(email)
      const { factors, recoveryCodesLeft } = await first.store.secondFactors.list(id)
      assert.deepEqual([factors.length, recoveryCodesLeft, factorsVersion], [1, 10, 1])
      assert.deepEqual(await countedIn('email'), { failures: 0, pending: 0 })
      advance(STEP_MS)
      assert.equal((await login(email, winner.code())).status, 200)
    })

    test('different proofs at once: each is good once', async () => {
      const { email, app, recoveryCodes } = await newUser()
      const proofs = [app.code(), ...recoveryCodes]
      const twice = [...proofs, ...proofs]
      const answers = await verifiedTogether(twice.length, index => login(email, twice[index]))
      assert.deepEqual(countStatuses(answers), { 200: proofs.length, 401: proofs.length })
    })

    test('a login that was verified before a change of the factors, the password or the user fails', async () => {
      const changes: Record<string, (user: User) => Promise<unknown>> = {
        removal: ({ email, recoveryCodes: [otp] }) => change(email, { secret: null, otp }),
        'new codes': ({ email, recoveryCodes: [otp] }) =>
          change(email, { recoveryCodes: true, otp }),
        reset: async ({ email }) =>
          first.store.secondFactors.reset((await userOf(email)).id, null, changeAt(first.now())),
        password: ({ email, recoveryCodes: [otp] }) => {
          const body = { email, currentPassword: PASSWORD, newPassword: 'seven green boats', otp }
          return call({ path: `${AUTH}/password`, body })
        },
        deactivation: ({ email }) => byEmail(first.store).deactivate(email, changeAt(first.now())),
      }
      for (const [what, make] of Object.entries(changes)) {
        const user = await newUser()
        await first.database.rows('delete from login_throttle')
        let isHeld = false
        let isMade = false
        beforeSuccess = async () => {
          if (isHeld) return
          isHeld = true
          await until(async () => isMade)
        }
        const early = login(user.email, user.app.code())
        await until(async () => isHeld)
        const made = await make(user)
        assert.ok(made && Object(made).status !== 401, what)
        isMade = true
        assert.equal((await early).status, 401, what)
        assert.deepEqual(await countedIn('client'), { failures: 1, pending: 0 }, what)
      }
      beforeSuccess = async () => {}
    })

    test('many changes and logins of few users at once: no error, no deadlock, nothing left open', async () => {
      const users: (Pick<User, 'email' | 'app' | 'recoveryCodes'> & { id: string })[] = []
      // One after the other, because each one's set-up moves the clock.
      while (users.length < 3) {
        const { email, app, recoveryCodes } = await newUser()
        users.push({ email, app, recoveryCodes, id: (await userOf(email)).id })
      }
      const next = createRandom(52)
      const random = (below: number) => Math.floor(next() * below)
      const statuses: Record<string, number> = {}
      await inParallel(STORM.clients, async () => {
        for (let step = 0; step < STORM.steps; step++) {
          const user = users[random(users.length)]
          assert.ok(user)
          const { email, id } = user
          if (random(4) === 0) advance(STEP_MS)
          const otp =
            [user.app.code(), user.recoveryCodes[random(10)], user.app.wrongCode()][random(3)] ?? ''
          const app = createAuthenticator(first.now)
          const at = changeAt(first.now())
          const operations: (() => Promise<unknown>)[] = [
            () => login(email, otp),
            () => login(email, otp),
            () => login(email),
            async () => {
              const answer = await change(email, { otp, secret: app.secret, newOtp: app.code() })
              const { recoveryCodes } = answer.status === 200 ? answer.json.data : {}
              if (recoveryCodes) Object.assign(user, { app, recoveryCodes })
              return answer
            },
            async () => {
              const answer = await change(email, { otp, recoveryCodes: true })
              const { recoveryCodes } = answer.status === 200 ? answer.json.data : {}
              if (recoveryCodes) Object.assign(user, { recoveryCodes })
              return answer
            },
            () => change(email, { otp, secret: null }),
            () => first.store.secondFactors.reset(id, null, at),
            () => first.store.users.unlock(id, at),
            () => first.store.sessions.endAll(id, at),
          ]
          const result = await operations[random(operations.length)]?.()
          const { status } = Object(result)
          if (status) statuses[status] = (statuses[status] ?? 0) + 1
        }
      })
      const { 200: opened = 0, 400: unfit = 0, 401: refused = 0, ...faulty } = statuses
      assert.deepEqual(faulty, {}, JSON.stringify(statuses))
      assert.ok(opened > 0 && refused > 0 && unfit > 0, JSON.stringify(statuses))
      for (const instance of instances) {
        const faults = faultsIn(instance).filter(({ event }) => event !== 'account.password_known')
        assert.deepEqual(faults, [])
      }
      assert.equal((await countedIn('email')).pending, 0)
      const [rows] = await first.database.rows(`select
        (select count(*) from recovery_codes where not exists
          (select 1 from second_factors where second_factors.user_id = recovery_codes.user_id)) as useless,
        (select count(*) from (select user_id from recovery_codes group by user_id
          having count(*) <> 10) counted) as uneven`)
      assert.deepEqual(toNumbers(rows), { useless: 0, uneven: 0 })
      if (engine !== 'postgres') return
      // A connection has told the server all that it counted when it has ended.
      const others = 'datname = current_database() and pid <> pg_backend_pid()'
      const open = await first.database.rows(
        `select state, pg_terminate_backend(pid, 5000) from pg_stat_activity where ${others}`,
      )
      assert.ok(open.every(({ state }) => state === 'idle'))
      const [server] = await first.database.rows(
        'select deadlocks from pg_stat_database where datname = current_database()',
      )
      assert.deepEqual(toNumbers(server), { deadlocks: 0 })
    })
  })
}
