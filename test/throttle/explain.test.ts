// "users show" and "throttle" tell what a login will do, and what they clear takes effect at once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { explainUser, type Verdict } from '../../src/admin/operations/explain-user.ts'
import { sentenceOf } from '../../src/admin/operations/explanation.ts'
import { listThrottle, showThrottle } from '../../src/admin/operations/read-throttle.ts'
import { clearThrottle } from '../../src/admin/operations/throttle.ts'
import { findUser } from '../../src/admin/operations/user.ts'
import { loadConfig } from '../../src/config/config.ts'
import { throttleScopes } from '../../src/login/scopes.ts'
import { type CountedClient, toCountedClient } from '../../src/system/client-group.ts'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { createCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { createDeployment, until } from '../support/process.ts'
import { type Answer, PASSWORD, startTestService, type TestService } from '../support/service.ts'

const MINUTE_MS = 60_000
const HISTORIES = { sqlite: 8, postgres: 15 }
/** Each step waits for a login: a failed history would be shortened for many minutes. */
const WITHOUT_SHRINKING = { endOnFailure: true }

function clientAt(ip: string): CountedClient {
  const client = toCountedClient(ip)
  assert.ok(client)
  return client
}

function depsOf({ store, now, env }: TestService) {
  const { budgets } = loadConfig(env)
  const { by } = changeAt()
  const passwordRules = { minLength: 8, brandName: '', toOverrule: '' }
  return {
    ...{ store, clock: now, by, hashPassword: async () => '-', passwordRules, budgets },
    bcryptCost: 4,
    oneAtATime: <T>(work: () => Promise<T>) => work(),
  }
}

type Step =
  | { kind: 'attempt'; email: number; client: number; isRight: boolean }
  | { kind: 'advance'; ms: number }
  | { kind: 'change'; email: number; client: number; how: (typeof CHANGES)[number] }

const CHANGES = ['lock', 'unlock', 'deactivate', 'activate', 'clear email', 'clear client'] as const
const position = fc.nat(2)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 14,
    arbitrary: fc.record({
      kind: fc.constant('attempt' as const),
      email: position,
      client: position,
      isRight: fc.constantFrom(true, false, false, false),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('advance' as const),
      ms: fc.constantFrom(MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, 24 * 60 * MINUTE_MS),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('change' as const),
      email: position,
      client: position,
      how: fc.constantFrom(...CHANGES),
    }),
  },
)

const attempt = (email: number, isRight: boolean): Step => ({
  ...{ kind: 'attempt', email, client: 0, isRight },
})
const change = (how: (typeof CHANGES)[number]): Step => ({
  ...{ kind: 'change', email: 0, client: 0, how },
})
const EVERY_VERDICT = [
  ...[attempt(2, true), attempt(0, true), change('lock'), attempt(0, true)],
  ...[change('deactivate'), attempt(1, true), attempt(0, true), attempt(1, false)],
  ...[attempt(1, false), attempt(1, false), attempt(1, true)],
]

for (const engine of ENGINES_BY_RUN) {
  test(`what "users show" says of a login is what the login does, in ${HISTORIES[engine]} histories on ${engine}`, async t => {
    const service = await startTestService(engine, {
      THROTTLE_PAIR_FAILURES: '2',
      THROTTLE_EMAIL_FAILURES: '4',
      THROTTLE_CLIENT_FAILURES: '5',
    })
    t.after(() => service.stop())
    const deps = depsOf(service)
    const seen = new Set<string>()
    let run = 0

    const asShown = fc.asyncProperty(
      fc.array(step, { minLength: 10, maxLength: 40, size: 'max' }),
      async steps => {
        run++
        const emails = [0, 1, 2].map(i => `user${run}-${i}@example.com`)
        // The last one has no user.
        for (const email of emails.slice(0, 2)) await service.addUser(email)
        for (const step of steps) {
          if (step.kind === 'advance') {
            service.advance(step.ms)
            continue
          }
          const email = emails[step.email] ?? ''
          const ip = `127.${100 + step.client}.${Math.floor(run / 250)}.${(run % 250) + 1}`
          const client = clientAt(ip)
          const change = changeAt(service.now())
          if (step.kind === 'change') {
            if (step.how === 'lock') {
              const until = new Date(change.at.getTime() + 10 * MINUTE_MS)
              await byEmail(service.store).lock(email, until, change)
            }
            // Each of these waits until no block is cached any more.
            if (step.how === 'unlock' || step.how === 'clear email')
              await clearThrottle.run(deps, { named: '', email })
            if (step.how === 'unlock') await byEmail(service.store).unlock(email, change)
            if (step.how === 'clear client') await clearThrottle.run(deps, { named: '', client })
            if (step.how === 'deactivate') await byEmail(service.store).deactivate(email, change)
            if (step.how === 'activate') await byEmail(service.store).activate(email, change)
            continue
          }
          const found = await service.store.users.findByEmail(email)
          const explained = found && (await explainUser(deps, found, client))
          const throttle = explained?.throttle ?? (await showThrottle(deps, { email, client }))
          const verdict: Verdict | null = explained?.verdict ?? null
          const answer = await service.login(email, step.isRight ? PASSWORD : 'wrong', ip)
          const mustWait = throttle.scopes.some(({ waitsUntil }) => waitsUntil !== null)
          const expected = mustWait
            ? 429
            : verdict?.kind === 'can-log-in' && step.isRight
              ? 200
              : 401
          assert.equal(answer.status, expected, JSON.stringify({ verdict, throttle }))
          // A scope that is used up and not blocked yet is blocked by this attempt, for longer than shown.
          const isBlocked = throttle.scopes.every(scope => scope.blockedUntil ?? !scope.waitsUntil)
          if (verdict?.kind === 'must-wait' && isBlocked) {
            const leftMs = verdict.until.getTime() - service.now().getTime()
            const isAsShown = ({ headers }: Answer) =>
              // The clock has run on since.
              Math.abs(Number(headers['retry-after']) * 1000 - leftMs) < 60_000
            // A cached block of one scope may hide a longer one of another scope for a moment.
            const password = step.isRight ? PASSWORD : 'wrong'
            if (!isAsShown(answer)) {
              await until(async () => isAsShown(await service.login(email, password, ip)))
            }
          }
          if (!explained) continue
          assert.equal(explained.state === 'inactive', explained.verdict.kind === 'inactive')
          seen.add(explained.verdict.kind)
        }
      },
    )
    await fc.assert(asShown, {
      numRuns: HISTORIES[engine],
      examples: [[EVERY_VERDICT]],
      ...WITHOUT_SHRINKING,
    })
    const kinds = ['can-log-in', 'must-wait', 'inactive', 'locked']
    assert.deepEqual([...seen].toSorted(), kinds.toSorted(), 'the histories reach every verdict')
  })

  test(`a blocked office is found and freed while the service runs in another process, on ${engine}`, async t => {
    const deployment = await createDeployment(engine, {
      TRUST_PROXY: '127.0.0.1',
      THROTTLE_CLIENT_FAILURES: '6',
      THROTTLE_NETWORK_FAILURES: '6',
    })
    const cli = await createCli(deployment.database)
    t.after(async () => {
      await cli.remove()
      await deployment.remove()
    })
    await deployment.addUser('ann@example.com')
    const service = await deployment.start()
    const login = async (ip: string, email: string, password: string) => {
      const headers = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': ip }
      return (await service.call({ body: { email, password }, headers })).status
    }
    const run = (...args: string[]) => cli.run(args, '', deployment.env)

    for (const [office, colleague] of [
      ['203.0.113.7', '203.0.113.7'],
      // Another /64 of the same /48.
      ['2001:db8:7:1::1', '2001:db8:7:2::1'],
    ] as const) {
      for (let i = 0; i < 6; i++) await login(office, `unknown${i}@example.com`, 'wrong')
      assert.equal(await login(colleague, 'ann@example.com', PASSWORD), 429)

      const { clients, waiting } = JSON.parse((await run('throttle', 'list', '--json')).stdout)
      assert.ok(waiting.client > 0)
      const { scopes } = JSON.parse(
        (await run('throttle', 'show', '--client', colleague, '--json')).stdout,
      )
      const blocked = scopes.filter((scope: { waitsUntil: string | null }) => scope.waitsUntil)
      assert.ok(blocked.length > 0)
      for (const { digest } of blocked) {
        assert.ok(clients.some((client: { digest: string }) => client.digest === digest))
      }
      const { stdout } = await run('users', 'show', 'ann@example.com', '--client', colleague)
      assert.match(stdout, new RegExp(`^From ${colleague}, ann@example.com must wait until `))

      const cleared = await run('throttle', 'clear', '--client', colleague)
      assert.equal(cleared.code, 0, cleared.stderr)
      assert.equal(await login(colleague, 'ann@example.com', PASSWORD), 200)
      const again = await run('throttle', 'clear', '--client', colleague)
      assert.match(again.stderr, /nothing was cleared/)
      const { stdout: audit } = await run('audit', 'list', '--target', colleague, '--json')
      const [event, ...others] = JSON.parse(audit)
      assert.equal(event.action, 'throttle.cleared')
      assert.deepEqual(
        [event.before.failures, event.after],
        [6, { failures: 0, blockedUntil: null }],
      )
      assert.deepEqual(others, [], 'clearing nothing is not recorded')
    }
  })

  test(`"throttle list" names users that wait, counts their clients and shows the worst clients first, on ${engine}`, async t => {
    const service = await startTestService(engine)
    t.after(() => service.stop())
    const deps = depsOf(service)
    for (const name of ['ann', 'ben', 'cat']) await service.addUser(`${name}@example.com`)
    const guess = async (name: string, client: number, times: number) => {
      for (let i = 0; i < times; i++) {
        await service.login(`${name}@example.com`, 'wrong', `127.4.0.${client}`)
      }
    }
    for (const client of [1, 2, 3, 4]) await guess('ann', client, 5)
    await guess('ann', 5, 1)
    await guess('ben', 1, 2)
    await guess('no-user', 6, 3)
    const list = await listThrottle(deps, 20)
    assert.deepEqual(
      list.emails.map(({ email, failures, dailyFailures, clients }) => [
        email,
        ...[failures, dailyFailures, clients],
      ]),
      [['ann@example.com', 20, 20, 4]],
    )
    assert.deepEqual(list.waiting, { email: 1, client: 0, network: 0 })
    assert.ok(list.emails[0]?.waitsUntil)
    assert.deepEqual(
      list.clients.map(({ failures }) => failures),
      [7, 5, 5, 5, 3],
    )
    const shorter = await listThrottle(deps, 1)
    assert.deepEqual(shorter.emails, list.emails.slice(0, 1))
    assert.equal(shorter.clients.length, 1)

    // An email that is used up can be cleared without touching an administrator's lock.
    const locked = changeAt(service.now())
    const until = new Date(locked.at.getTime() + 60 * MINUTE_MS)
    assert.deepEqual(
      (await clearThrottle.run(deps, { named: '', email: 'ann@example.com' })).data,
      { cleared: true },
    )
    const ann = await service.store.users.findByEmail('ann@example.com')
    assert.deepEqual([ann?.lockedUntil, ann?.lockedBy], [null, null])
    assert.equal((await service.login('ann@example.com', PASSWORD, '127.4.0.1')).status, 200)
    await byEmail(service.store).lock('ben@example.com', until, locked)
    assert.deepEqual(
      (await clearThrottle.run(deps, { named: '', email: 'ben@example.com' })).data,
      { cleared: true },
    )
    assert.deepEqual((await service.store.users.findByEmail('ben@example.com'))?.lockedUntil, until)
    assert.deepEqual(
      (await clearThrottle.run(deps, { named: '', email: 'cat@example.com' })).data,
      { cleared: false },
    )

    service.advance(16 * MINUTE_MS)
    const { emails, clients } = await listThrottle(deps, 20)
    assert.deepEqual([emails, clients], [[], []])
  })

  test(`"users show" tells the daily limit, known devices, and waits of an email without a user, on ${engine}`, async t => {
    const service = await startTestService(engine)
    t.after(() => service.stop())
    const deps = depsOf(service)
    const email = 'ann@example.com'
    const id = await service.addUser(email)
    const headers = { 'Sec-Fetch-Site': 'same-origin' }
    const known = await service.call({ body: { email, password: PASSWORD }, headers })
    assert.equal(known.status, 200)
    const fail = async (guessed: string, times: number) => {
      for (let i = 0; i < times; i++) {
        const client = clientAt(`203.0.113.${i}`)
        const scopes = throttleScopes(guessed, client, deps.budgets)
        const reserved = await service.store.attempts.reserve(scopes, guessed, service.now())
        assert.equal(reserved.kind, 'admitted')
        const userId = guessed === email ? id : null
        await service.store.attempts.fail(scopes, userId, service.now())
      }
    }
    const sentence = async (shown: string) =>
      sentenceOf(await explainUser(deps, await findUser(deps, shown), null))

    await fail(email, 20)
    assert.match(
      await sentence(email),
      /^ann@example\.com must wait until \S+Z: 20 failures in 15 minutes\. Known devices can log in\.$/,
    )
    for (let window = 1; window < 5; window++) {
      service.advance(15 * MINUTE_MS)
      await fail(email, 20)
    }
    service.advance(15 * MINUTE_MS)
    assert.equal(await sentence(email), 'ann@example.com can log in.')
    await fail(email, 5)
    assert.match(
      await sentence(email),
      /: the 100 failures for the day are used up, after which one/,
    )
    assert.equal((await service.login(email, PASSWORD, '127.5.0.1')).status, 429)

    // The command has the clock of the machine.
    const unknown = await startTestService(engine)
    const other = await createCli(unknown.database)
    t.after(async () => {
      await other.remove()
      await unknown.stop()
    })
    for (let i = 0; i < 20; i++) {
      await unknown.login('no-user@example.com', 'wrong', `127.6.0.${1 + (i % 4)}`)
    }
    const shown = await other.run(['throttle', 'show', '--email', 'no-user@example.com'])
    assert.match(shown.stdout, /^failures of email +20 of 20 .*waits until/m)
    assert.match(shown.stdout, /^clients that failed +4, 4 wait until/m)
  })
}
