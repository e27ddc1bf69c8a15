// Parallel attempts must not reveal whether an email has a user. Among seven attempts at unknown emails,
// a probe must finish at the same rank with and without a user. Commits take 5 ms, as with a synchronous
// standby, so that attempts that wait for each other's rows can be measured.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestService, type TestService, UNLIMITED } from '../support/service.ts'

const AT_ONCE = 8
const WARM_UP_ROUNDS = 50
/** 0.5 is chance. With 225 rounds of each kind its standard error is 0.027. */
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

test('the order in which parallel attempts finish does not reveal a known email', async context => {
  const service = await startWithSlowCommits(context)
  const auc = await measureAuc(service, 450)
  context.diagnostic(`area under the curve: ${auc.toFixed(3)}`)
  assert.ok(Math.abs(auc - 0.5) < MAX_DISTANCE_FROM_CHANCE, String(auc))
})

test('the comparison can fail: a row shared by unknown emails is detected', async context => {
  const service = await startWithSlowCommits(context)
  await service.database.rows(SHARED_ROW)
  const auc = await measureAuc(service, 200)
  context.diagnostic(`control: area under the curve: ${auc.toFixed(3)}`)
  assert.ok(auc - 0.5 > MAX_DISTANCE_FROM_CHANCE, String(auc))
})

type Context = { after: (action: () => Promise<void>) => void }

async function startWithSlowCommits(context: Context): Promise<TestService> {
  const first = await startTestService('postgres', UNLIMITED)
  await first.database.rows(SLOW_COMMITS)
  await first.addUser('known@example.com')
  // The setting applies only to connections that are opened after it.
  const service = await startTestService('postgres', UNLIMITED, first)
  context.after(async () => {
    await service.stop()
    await first.stop()
  })
  return service
}

/** The probability that a probe of a known email finishes before a probe of an unknown email. */
async function measureAuc(service: TestService, rounds: number): Promise<number> {
  const ranks: Record<'known' | 'absent', number[]> = { known: [], absent: [] }
  for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
    const kind = round % 2 === 0 ? 'known' : 'absent'
    const probe = Math.floor(Math.random() * AT_ONCE)
    const finished: number[] = []
    await Promise.all(
      Array.from({ length: AT_ONCE }, async (_, i) => {
        const name = i === probe ? kind : `filler-${i}-${round % 10}`
        await service.login(`${name}@example.com`, 'not the password', `127.3.0.${i + 1}`)
        finished.push(i)
      }),
    )
    if (round >= 0) ranks[kind].push(finished.indexOf(probe))
  }
  let earlier = 0
  for (const known of ranks.known) {
    for (const absent of ranks.absent) earlier += known < absent ? 1 : known === absent ? 0.5 : 0
  }
  return earlier / (ranks.known.length * ranks.absent.length)
}
