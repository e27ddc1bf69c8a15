// "users show" and "throttle" tell what a login will do, and what they clear takes effect at once.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { explainUser } from '../../src/admin/operations/explain-user.ts'
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
import { own } from '../support/own.ts'
import { until } from '../support/process.ts'
import { type Answer, PASSWORD, startTestService, type TestService } from '../support/service.ts'
import { MINUTE_MS } from '../support/session-client.ts'

const HISTORIES = { sqlite: 8, postgres: 15 }

const position = fc.nat(2)
const attempt = fc.record({
  kind: fc.constant('attempt'),
  email: position,
  client: position,
  isRight: fc.constantFrom(true, false, false, false),
})
const advance = fc.record({
  kind: fc.constant('advance'),
  ms: fc.constantFrom(MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, 24 * 60 * MINUTE_MS),
})
const change = fc.record({
  kind: fc.constantFrom('lock', 'unlock', 'deactivate', 'activate', 'clear email', 'clear client'),
  email: position,
  client: position,
})
const step = fc.oneof(
  { weight: 14, arbitrary: attempt },
  { weight: 2, arbitrary: advance },
  { weight: 2, arbitrary: change },
)
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

const attemptAt = (email: number, isRight = true): Step => ({
  ...{ kind: 'attempt', email, client: 0, isRight },
})
const EVERY_VERDICT: Step[] = [
  ...[attemptAt(2), attemptAt(0), { kind: 'lock' as const, email: 0, client: 0 }, attemptAt(0)],
  ...[{ kind: 'deactivate' as const, email: 0, client: 0 }, attemptAt(1), attemptAt(0)],
  ...[attemptAt(1, false), attemptAt(1, false), attemptAt(1, false), attemptAt(1)],
]

function clientAt(ip: string): CountedClient {
  const client = toCountedClient(ip)
  assert.ok(client)
  return client
}

/** What an operation needs, and what the tests do with it. */
function administer({ store, now, env }: TestService) {
  const { budgets } = loadConfig(env)
  const passwordRules = { minLength: 8, brandName: '', toOverrule: '' }
  const deps = {
    ...{ store, clock: now, by: changeAt().by, hashPassword: async () => '-', passwordRules },
    ...{
      budgets,
      bcryptCost: 4,
      secondFactorRoles: [],
      oneAtATime: <T>(work: () => Promise<T>) => work(),
    },
  }
  return {
    deps,
    users: byEmail(store),
    at: () => changeAt(now()),
    /** Waits until no block is cached any more. */
    clear: (named: { email: string } | { client: CountedClient }) =>
      clearThrottle.run(deps, { named: '', ...named }),
  }
}

for (const engine of ENGINES_BY_RUN) {
  test(`what "users show" says of a login is what the login does, in ${HISTORIES[engine]} histories on ${engine}`, async () => {
    const service = await own(
      startTestService(engine, {
        THROTTLE_PAIR_FAILURES: '2',
        THROTTLE_EMAIL_FAILURES: '4',
        THROTTLE_CLIENT_FAILURES: '5',
      }),
    )
    const { deps, users, at, clear } = administer(service)
    const inTenMinutes = () => new Date(service.now().getTime() + 10 * MINUTE_MS)
    const changes = {
      lock: (email: string) => users.lock(email, inTenMinutes(), at()),
      unlock: (email: string) => clear({ email }).then(() => users.unlock(email, at())),
      deactivate: (email: string) => users.deactivate(email, at()),
      activate: (email: string) => users.activate(email, at()),
      'clear email': (email: string) => clear({ email }),
      'clear client': (_: string, client: CountedClient) => clear({ client }),
    }
    const seen = new Set<string>()
    let run = 0

    const histories = fc.array(step, { minLength: 10, maxLength: 40, size: 'max' })
    const asShown = fc.asyncProperty(histories, async steps => {
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
        if (step.kind !== 'attempt') {
          await changes[step.kind](email, client)
          continue
        }
        const found = await service.store.users.findByEmail(email)
        const explained = found && (await explainUser(deps, found, client))
        const throttle = explained?.throttle ?? (await showThrottle(deps, { email, client }))
        const verdict = explained?.verdict ?? null
        const logIn = () => service.login(email, step.isRight ? PASSWORD : 'wrong', ip)
        const answer = await logIn()
        const mustWait = throttle.scopes.some(({ waitsUntil }) => waitsUntil !== null)
        const canLogIn = verdict?.kind === 'can-log-in' && step.isRight
        const expected = mustWait ? 429 : canLogIn ? 200 : 401
        assert.equal(answer.status, expected, JSON.stringify({ verdict, throttle }))
        // A scope that is used up and not blocked yet is blocked by this attempt, for longer than shown.
        const isBlocked = throttle.scopes.every(scope => scope.blockedUntil ?? !scope.waitsUntil)
        if (verdict?.kind === 'must-wait' && isBlocked) {
          const leftMs = verdict.until.getTime() - service.now().getTime()
          const isAsShown = ({ headers }: Answer) =>
            // The clock has run on since.
            Math.abs(Number(headers['retry-after']) * 1000 - leftMs) < 60_000
          // A cached block of one scope may hide a longer one of another scope for a moment.
          if (!isAsShown(answer)) await until(async () => isAsShown(await logIn()))
        }
        if (!explained) continue
        assert.equal(explained.state === 'inactive', explained.verdict.kind === 'inactive')
        seen.add(explained.verdict.kind)
      }
    })
    // Each step waits for a login: a failed history would be shortened for many minutes.
    await fc.assert(asShown, {
      ...{ numRuns: HISTORIES[engine], examples: [[EVERY_VERDICT]], endOnFailure: true },
    })
    const kinds = ['can-log-in', 'inactive', 'locked', 'must-wait']
    assert.deepEqual([...seen].toSorted(), kinds, 'the histories reach every verdict')
  })

  // The clock of this service is never moved: commands have that of the machine.
  describe(`commands beside a service on ${engine}`, async () => {
    const env = { THROTTLE_CLIENT_FAILURES: '6', THROTTLE_NETWORK_FAILURES: '6' }
    const service = await own(startTestService(engine, { ...env, TRUST_PROXY: '127.0.0.1' }))
    const cli = await own(createCli(service.database))
    const run = (...args: string[]) => cli.run(args, '', env)
    const login = async (ip: string, email: string, password: string) => {
      const headers = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': ip }
      return (await service.call({ body: { email, password }, headers })).status
    }

    for (const [office, colleague, stranger, scope, where] of [
      ['203.0.113.7', '203.0.113.7', '203.0.113.8', 'client', 'an IPv4 address'],
      // Another /64 of the same /48, and another /48.
      ['2001:db8:7:1::1', '2001:db8:7:2::1', '2001:db8:8::1', 'network', 'an IPv6 network'],
    ] as const) {
      test(`a blocked office in ${where} is found and freed, and no other is blocked`, async () => {
        const email = await service.newUser()
        for (let i = 0; i < 6; i++) await login(office, `unknown${i}@example.com`, 'wrong')
        assert.equal(await login(colleague, email, PASSWORD), 429)
        assert.equal(await login(stranger, email, PASSWORD), 200)
        assert.ok(service.logged().some(line => line.scope === scope))

        const { clients, waiting } = JSON.parse((await run('throttle', 'list', '--json')).stdout)
        assert.ok(waiting.client > 0)
        const shown = await run('throttle', 'show', '--client', colleague, '--json')
        const blocked = JSON.parse(shown.stdout).scopes.filter(
          (scope: { waitsUntil: string | null }) => scope.waitsUntil,
        )
        assert.ok(blocked.length > 0)
        for (const { digest } of blocked) {
          assert.ok(clients.some((client: { digest: string }) => client.digest === digest))
        }
        const { stdout } = await run('users', 'show', email, '--client', colleague)
        assert.match(stdout, new RegExp(`^From ${colleague}, ${email} must wait until `))

        const cleared = await run('throttle', 'clear', '--client', colleague)
        assert.equal(cleared.code, 0, cleared.stderr)
        assert.equal(await login(colleague, email, PASSWORD), 200)
        const again = await run('throttle', 'clear', '--client', colleague)
        assert.match(again.stderr, /nothing was cleared/)
        const audit = await run('audit', 'list', '--target', colleague, '--json')
        const [event, ...others] = JSON.parse(audit.stdout)
        const { action, before, after } = event
        assert.deepEqual(
          [action, before.failures, after],
          ['throttle.cleared', 6, { failures: 0, blockedUntil: null }],
        )
        assert.deepEqual(others, [], 'clearing nothing is not recorded')
      })
    }

    test('"throttle show" tells the waits of an email without a user', async () => {
      const email = 'no-user@example.com'
      for (let i = 0; i < 20; i++) await login(`192.0.2.${i % 4}`, email, 'wrong')
      const { stdout } = await run('throttle', 'show', '--email', email)
      assert.match(stdout, /^failures of email +20 of 20 .*waits until/m)
      assert.match(stdout, /^clients that failed +4, 4 wait until/m)
    })
  })

  describe(`what administrators are told on ${engine}`, async () => {
    const service = await own(startTestService(engine))
    const { deps, clear } = administer(service)

    test('"throttle list" names users that wait, counts their clients and shows the worst clients first', async () => {
      for (const name of ['ann', 'ben']) await service.addUser(`${name}@example.com`)
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
      const logIn = async () => (await service.login('ann@example.com', PASSWORD)).status
      assert.equal(await logIn(), 429)
      await clear({ email: 'ann@example.com' })
      assert.equal(await logIn(), 200)

      service.advance(16 * MINUTE_MS)
      const { emails, clients } = await listThrottle(deps, 20)
      assert.deepEqual([emails, clients], [[], []])
    })

    test('"users show" tells the daily limit and known devices', async () => {
      const email = 'dan@example.com'
      const id = await service.addUser(email)
      const headers = { 'Sec-Fetch-Site': 'same-origin' }
      const known = await service.call({ body: { email, password: PASSWORD }, headers })
      assert.equal(known.status, 200)
      const fail = async (times: number) => {
        for (let i = 0; i < times; i++) {
          const scopes = throttleScopes(email, clientAt(`203.0.113.${i}`), deps.budgets)
          const reserved = await service.store.attempts.reserve(scopes, email, service.now())
          assert.equal(reserved.kind, 'admitted')
          await service.store.attempts.fail(scopes, id, service.now())
        }
      }
      const sentence = async () =>
        sentenceOf(await explainUser(deps, await findUser(deps, email), null))

      await fail(20)
      assert.match(
        await sentence(),
        /^dan@example\.com must wait until \S+Z: 20 failures in 15 minutes\. Known devices can log in\.$/,
      )
      for (let window = 1; window < 5; window++) {
        service.advance(15 * MINUTE_MS)
        await fail(20)
      }
      service.advance(15 * MINUTE_MS)
      assert.equal(await sentence(), 'dan@example.com can log in.')
      await fail(5)
      assert.match(await sentence(), /: the 100 failures for the day are used up, after which one/)
      assert.equal((await service.login(email, PASSWORD, '127.5.0.1')).status, 429)
    })
  })
}
