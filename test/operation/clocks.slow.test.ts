// Instances on one PostgreSQL whose machines have different clocks, and clocks that are set while they run.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { offsetOf, readDatabaseClock } from '../../src/service/cluster-clock.ts'
import type { Finding } from '../../src/system/finding.ts'
import { setUpCli } from '../support/cli.ts'
import { openTestStore } from '../support/engines.ts'
import {
  breakDatabaseClock,
  createMovedClock,
  moveDatabaseClock,
  replaceDatabaseClock,
} from '../support/moved-clock.ts'
import { eventsOf, own } from '../support/own.ts'
import { createDeployment, type ServiceProcess, until } from '../support/process.ts'
import { countStatuses } from '../support/service.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const BLOCK_SECONDS = 15 * 60
/** Much longer than a test takes, and much shorter than the difference of two clocks. */
const TOLERANCE_SECONDS = 4 * 60
/** How far from the database's clock; above a minute an instance is not ready, but still exact. */
const MOVED_MS = [12 * SECOND_MS, -70 * SECOND_MS, 20 * MINUTE_MS]

/** The events about its clock that an instance has logged. */
const clockEvents = (instance: ServiceProcess) =>
  eventsOf(instance.lines()).filter(event => String(event).startsWith('clock.'))
/** True if the last measurement found the machine's clock this far from the database's. */
const isWrongBy = (instance: ServiceProcess, ms: number) => {
  const last = instance.lines().findLast(({ event }) => event.startsWith('clock.'))
  return last?.event === 'clock.wrong' && Math.abs(Number(last.offsetMs) + ms) < MINUTE_MS
}

const isReady = async (instance: ServiceProcess) => (await instance.health('/readyz')) === 200
const isRight = async (instance: ServiceProcess) =>
  clockEvents(instance).at(-1) !== 'clock.wrong' && (await isReady(instance))

const refresh = (instance: ServiceProcess, refreshToken: string) =>
  instance.call({ path: '/api/v1/auth/refresh', body: { refreshToken } })

/** Lets each instance guess in turn; returns the answers. */
async function guess(instances: ServiceProcess[], email: string, times: number) {
  const answers = []
  for (let i = 0; i < times; i++) {
    for (const instance of instances) answers.push(await instance.login(email, `guess ${i}`))
  }
  return answers
}

/** Fails if an instance says that the blocked email has to wait for much longer or shorter than this. */
async function assertBlocked(
  instances: ServiceProcess[],
  email: string,
  aboutSeconds = BLOCK_SECONDS,
) {
  for (const instance of instances) {
    const { status, headers } = await instance.login(email, 'wrong')
    assert.equal(status, 429)
    const seconds = Number(headers['retry-after'])
    assert.ok(Math.abs(seconds - aboutSeconds) < TOLERANCE_SECONDS, `${seconds} s`)
  }
}

describe('of several instances', async () => {
  const deployment = await own(createDeployment('postgres'))
  const start = async (movedMs: number) => {
    const clock = await createMovedClock(deployment.dataDir, movedMs)
    return { ...(await deployment.start(clock.env)), clock }
  }
  const newUser = async (name: string): Promise<string> => {
    const email = `${name}@example.com`
    await deployment.addUser(email)
    return email
  }
  const first = await start(0)

  for (const movedMs of MOVED_MS) {
    describe(`one whose clock is wrong by ${movedMs / SECOND_MS} s`, async () => {
      const email = await newUser(`user${movedMs}`)
      const wrong = await start(movedMs)

      test('readiness and the log tell it', async () => {
        assert.equal(await isReady(first), true)
        assert.deepEqual(clockEvents(first), [])
        assert.equal(await isReady(wrong), Math.abs(movedMs) <= MINUTE_MS)
        const { level, offsetMs, msg } = await wrong.line('clock.wrong')
        assert.equal(level, 'warn')
        assert.equal(Math.round(Number(offsetMs) / SECOND_MS), -movedMs / SECOND_MS)
        const text =
          /^the clock of this machine is [\d.]+ s (ahead of|behind) the clock of the database: synchronise both/
        assert.equal(text.exec(String(msg))?.[1], movedMs > 0 ? 'ahead of' : 'behind')
        const refusals = wrong.lines().filter(({ event }) => event === 'service.not_ready')
        for (const { err } of refusals) assert.match(err?.message ?? '', text)
        assert.equal(refusals.length, Math.abs(movedMs) > MINUTE_MS ? 1 : 0)
      })

      test('right passwords are never counted as failures', async () => {
        const countFailures = async () => {
          const sum = 'select coalesce(sum(failures + pending), 0) as sum from login_throttle'
          return (await deployment.database.rows(sum))[0]?.sum
        }
        const before = await countFailures()
        // The budget of the pair is 5: some of the logins at the same moment wait for others to end.
        for (let round = 0; round < 10; round++) {
          const logins = [first, wrong].flatMap(each => [1, 2, 3, 4].map(() => each.login(email)))
          assert.deepEqual(countStatuses(await Promise.all(logins)), { 200: 8 })
        }
        assert.equal(await countFailures(), before)
      })

      test('a refresh that is repeated at the other instance gets the same successor', async () => {
        for (const [one, other] of [
          [first, wrong],
          [wrong, first],
        ] as const) {
          const { refreshToken } = (await one.login(email)).json.data
          const rotated = await refresh(one, refreshToken)
          const repeated = await refresh(other, refreshToken)
          assert.deepEqual(countStatuses([rotated, repeated]), { 200: 2 })
          const successor = repeated.json.data.refreshToken
          assert.equal(successor, rotated.json.data.refreshToken)
          assert.equal((await refresh(other, successor)).status, 200)
        }
      })

      test('of 60 guesses at both, 5 are verified', async () => {
        const answers = await guess([first, wrong], email, 30)
        assert.deepEqual(countStatuses(answers), { 401: 5, 429: 55 })
        await assertBlocked([first, wrong], email)
      })
    })
  }

  describe('while a clock is set', async () => {
    const second = await start(0)
    const both = [first, second]

    test('that of a machine: times stay exact, and the instance is not ready until it is set again', async () => {
      const email = await newUser('step')
      await guess(both, email, 3)
      let { refreshToken } = (await first.login(await newUser('refreshed'))).json.data
      for (const movedMs of [20 * MINUTE_MS, -20 * MINUTE_MS]) {
        const rotated = await refresh(first, refreshToken)
        await second.clock.move(movedMs)
        const repeated = await refresh(second, refreshToken)
        refreshToken = rotated.json.data.refreshToken
        assert.equal(repeated.json.data.refreshToken, refreshToken)
        await until(async () => isWrongBy(second, movedMs) && !(await isReady(second)))
        await assertBlocked(both, email)
        await second.clock.move(0)
        await until(() => isRight(second))
        await assertBlocked(both, email)
      }
      const [wrong, right] = ['clock.wrong', 'clock.right']
      assert.deepEqual(clockEvents(second), [wrong, right, wrong, right])
      assert.equal(await isReady(first), true)
    })

    test('that of a machine, before each guess: of 60 guesses 5 are verified', async () => {
      const email = await newUser('jumps')
      const answers = []
      for (let i = 0; i < 30; i++) {
        await second.clock.move(((i % 7) - 3) * 20 * MINUTE_MS)
        answers.push(...(await guess(both, email, 1)))
      }
      assert.deepEqual(countStatuses(answers), { 401: 5, 429: 55 })
      await second.clock.move(0)
      await until(() => isRight(second))
    })

    test('that of the database, as by a failover or without one: both instances follow it', async () => {
      const email = await newUser('failover')
      await guess(both, email, 3)
      await moveDatabaseClock(deployment.database, 10 * MINUTE_MS)
      for (const instance of both) {
        await until(async () => isWrongBy(instance, -10 * MINUTE_MS) && !(await isReady(instance)))
      }
      await assertBlocked(both, email, BLOCK_SECONDS - 10 * 60)
      const countLost = () =>
        both.flatMap(each => eventsOf(each.lines())).filter(it => it === 'database.connection_lost')
      const lost = countLost()
      // While no connection breaks, the clock is read every minute.
      await replaceDatabaseClock(deployment.database, 'select pg_catalog.clock_timestamp()')
      for (const instance of both) await until(() => isRight(instance))
      await assertBlocked(both, email)
      assert.deepEqual(countLost(), lost)
    })

    test('the last offset stays while the clock of the database cannot be read', async () => {
      /** Statements that failed, such as readings of the clock. */
      const countRollbacks = async () => {
        const count =
          'select xact_rollback from pg_stat_database where datname = current_database()'
        return Number((await deployment.database.rows(count))[0]?.xact_rollback)
      }
      const email = await newUser('unreadable')
      await guess(both, email, 3)
      await second.clock.move(20 * MINUTE_MS)
      await until(async () => isWrongBy(second, 20 * MINUTE_MS))
      const failures = await countRollbacks()
      await breakDatabaseClock(deployment.database)
      await until(async () => (await countRollbacks()) >= failures + 4)
      await assertBlocked(both, email)
      await second.clock.move(0)
      await moveDatabaseClock(deployment.database, 0)
      await until(() => isRight(second))
      await assertBlocked(both, email)
    })
  })
})

/** A database whose clock is a minute ahead, and takes so long for a reading. */
async function openSlowly(pause: string) {
  const { store, database } = await openTestStore('postgres')
  await database.rows('create sequence readings')
  await replaceDatabaseClock(
    database,
    `select moved from (select pg_catalog.clock_timestamp() + interval '60 s' as moved,
      ${pause}) as readings`,
  )
  return store.maintenance
}

test('of several readings, the one with the shortest round trip is used', async () => {
  // Except for the second, the answer comes five seconds after the reading.
  const slow = await openSlowly(`case when nextval('readings') <> 2 then pg_sleep(5) end`)
  const ms = offsetOf(await readDatabaseClock(slow))
  // Of another reading it would be off by half of the five seconds.
  assert.ok(Math.abs(ms - MINUTE_MS) < 2 * SECOND_MS, `${ms} ms`)
})

test('a reading that slow ones cannot disprove stays, another one is replaced', async () => {
  const slow = await openSlowly('pg_sleep(0.5)')
  const ahead = (ms: number) => ({ databaseMs: Date.now() + ms, atMs: performance.now() })
  const right = ahead(MINUTE_MS)
  assert.equal(await readDatabaseClock(slow, right), right)
  const ms = offsetOf(await readDatabaseClock(slow, ahead(30 * SECOND_MS)))
  assert.ok(Math.abs(ms - MINUTE_MS) < 5 * SECOND_MS, `${ms} ms`)
})

describe('a command on a machine with a wrong clock', async () => {
  const cli = await setUpCli('postgres')
  const runAt = async (movedMs: number, ...args: string[]) =>
    cli.runProcess(args, '', (await createMovedClock(cli.folder, movedMs)).env)
  const minutesFromNow = (minutes: number) =>
    new Date(Date.now() + minutes * MINUTE_MS).toISOString()

  test('a lock ends by the clock of the database', async () => {
    await cli.run(['users', 'add', 'kate@example.com', '--name', 'Kate', '--generate'])
    const lock = ['users', 'lock', 'kate@example.com', '--until']
    const ahead = await runAt(20 * MINUTE_MS, ...lock, minutesFromNow(10))
    assert.deepEqual([ahead.code, /Locked kate/.test(ahead.stderr)], [0, true])
    const shown = await runAt(20 * MINUTE_MS, 'users', 'show', 'kate@example.com')
    assert.match(shown.stdout, /locked by administrator until/)
    const behind = await runAt(-20 * MINUTE_MS, ...lock, minutesFromNow(-10))
    assert.deepEqual([behind.code, behind.stderr], [2, 'A lock must end in the future.\n'])
  })

  test('new keys sign by the clock of the database', async () => {
    await runAt(-20 * MINUTE_MS, 'keys', 'rotate')
    await runAt(-20 * MINUTE_MS, 'keys', 'rotate')
    const { stdout } = await runAt(20 * MINUTE_MS, 'keys', 'list', '--json')
    const keys: { state: string; signsFrom: string }[] = JSON.parse(stdout)
    const states = keys.map(({ state }) => state)
    assert.deepEqual(states, ['signing', 'coming', 'signing', 'coming', 'encrypting'])
    for (const { state, signsFrom } of keys) {
      const expectedMs = Date.now() + (state === 'coming' ? 60 * MINUTE_MS : 0)
      assert.ok(Math.abs(Date.parse(signsFrom) - expectedMs) < 5 * MINUTE_MS, signsFrom)
    }
  })

  test('the doctor finds a warning above 2 s, and a problem above a minute', async () => {
    for (const [movedMs, state] of [
      [0, 'ok'],
      [12 * SECOND_MS, 'warning'],
      [-70 * SECOND_MS, 'problem'],
    ] as const) {
      const findings: Finding[] = JSON.parse((await runAt(movedMs, 'doctor', '--json')).stdout)
      const found = findings.find(({ check }) => check === 'database clock')
      assert.equal(found?.state, state, found?.detail)
    }
  })
})
