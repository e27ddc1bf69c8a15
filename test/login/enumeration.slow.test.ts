// Parallel attempts must not reveal whether an email has a user, or whether a password is right. Among seven attempts at
// unknown emails, a probe must finish at the same rank with and without a user. Commits take 5 ms, as with a synchronous
// standby, so that attempts that wait for each other's rows can be measured.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { newUserWithApp } from '../support/authenticator.ts'
import { inParallel, own } from '../support/own.ts'
import { IS_FULL } from '../support/proof.ts'
import { type Call, PASSWORD, startTestService, UNLIMITED } from '../support/service.ts'

const AT_ONCE = 8
const WARM_UP_ROUNDS = 20
const ROUNDS = IS_FULL ? 450 : 200
const CONTROL_ROUNDS = 60
const WRONG = 'not the password'
/** 0.5 is chance. With 100 rounds of each kind its standard error is 0.04; what is beyond must be so twice. */
const MAX_DISTANCE_FROM_CHANCE = 0.1

const SLOW_COMMITS = `do $$ begin
  execute format('alter database %I set commit_delay = 5000', current_database());
  execute format('alter database %I set commit_siblings = 0', current_database());
end $$`

/** Makes every failure of an unknown email wait for the previous one. */
const SHARED_ROW = `
  create table shared_row (n integer);
  insert into shared_row values (0);
  create function touch_shared_row() returns trigger language plpgsql as $$
    begin update shared_row set n = n + 1; return new; end $$;
  create trigger touch before update on unknown_user
    for each row execute function touch_shared_row()`

describe('parallel attempts, when commits are slow', async () => {
  const first = await startTestService('postgres', UNLIMITED)
  await first.database.rows(SLOW_COMMITS)
  await first.addUser('known@example.com')
  // The setting applies only to connections that are opened after it. The first service must be stopped last.
  const service = await own(startTestService('postgres', UNLIMITED, first))
  after(() => first.stop())

  const { email: secured, app } = await newUserWithApp(service, () => '127.3.1.1')
  const known: Call = { body: { email: 'known@example.com', password: WRONG } }
  const PROBES: [reveals: string, probe: Call][] = [
    ['a known email', known],
    [
      'a right password whose code is wrong',
      { body: { email: secured, password: PASSWORD, otp: app.wrongCode() } },
    ],
  ]
  for (const [reveals, probe] of PROBES) {
    test(`finish in an order that does not reveal ${reveals}`, async context => {
      let distance = Number.POSITIVE_INFINITY
      for (let i = 0; i < 2 && distance >= MAX_DISTANCE_FROM_CHANCE; i++) {
        const auc = await measureAuc(ROUNDS, probe)
        context.diagnostic(`${reveals}: area under the curve: ${auc.toFixed(3)}`)
        distance = Math.abs(auc - 0.5)
      }
      assert.ok(distance < MAX_DISTANCE_FROM_CHANCE, String(distance))
    })
  }

  test('are compared so that a row shared by unknown emails is detected', async context => {
    await service.database.rows(SHARED_ROW)
    const auc = await measureAuc(CONTROL_ROUNDS, known)
    context.diagnostic(`control: area under the curve: ${auc.toFixed(3)}`)
    assert.ok(auc - 0.5 > MAX_DISTANCE_FROM_CHANCE, String(auc))
  })

  /** The probability that the probe finishes before one of an unknown email. */
  async function measureAuc(rounds: number, known: Call): Promise<number> {
    const ranks: Record<'known' | 'absent', number[]> = { known: [], absent: [] }
    for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
      const kind = round % 2 === 0 ? 'known' : 'absent'
      const probe = Math.floor(Math.random() * AT_ONCE)
      const finished: number[] = []
      await inParallel(AT_ONCE, async i => {
        const name = i === probe ? kind : `filler-${i}-${round % 10}`
        const unknown = { body: { email: `${name}@example.com`, password: WRONG } }
        const { status } = await service.call({
          ...(i === probe && kind === 'known' ? known : unknown),
          from: `127.3.0.${i + 1}`,
        })
        assert.equal(status, 401)
        finished.push(i)
      })
      if (round >= 0) ranks[kind].push(finished.indexOf(probe))
    }
    let earlier = 0
    for (const known of ranks.known) {
      for (const absent of ranks.absent) earlier += known < absent ? 1 : known === absent ? 0.5 : 0
    }
    return earlier / (ranks.known.length * ranks.absent.length)
  }
})
