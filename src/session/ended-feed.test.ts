import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { openTestStore } from '../../test/engines.ts'
import type { SessionStore } from '../domain/session.ts'
import { createEndedFeed } from './ended-feed.ts'

const NOW_MS = Date.parse('2030-01-01T00:00:00Z')
const LISTED_MS = 65 * 60_000
const LATE_MS = 2 * 60_000

async function openFeed() {
  const { store, database } = await openTestStore('sqlite')
  const state = {
    nowMs: NOW_MS,
    /** The moment from which on each statement lists the ends. */
    reads: [] as number[],
    /** A statement does not end before this does. */
    stall: Promise.resolve(),
  }
  const listEnded: SessionStore['listEnded'] = async (from, limit) => {
    state.reads.push(from.endedAt.getTime())
    await state.stall
    return store.sessions.listEnded(from, limit)
  }
  const feed = createEndedFeed({ listEnded }, () => new Date(state.nowMs))
  return {
    state,
    database,
    listAt(nowMs: number, afterMs: number | null = null) {
      state.nowMs = nowMs
      return feed.list(afterMs)
    },
    async endAt(endedMs: number) {
      const [id, endedAt] = [randomUUID(), new Date(endedMs).toISOString()]
      await database.rows(
        `insert into ended_sessions (id, ended_at) values ('${id}', '${endedAt}')`,
      )
      return id
    },
  }
}

test('callers share a read while it runs and for a second after its start', async () => {
  const { state, listAt } = await openFeed()
  const nothing = { ids: [], nextMs: 0 }
  assert.deepEqual(await listAt(NOW_MS), nothing)
  assert.deepEqual(await listAt(NOW_MS + 999), nothing)
  assert.equal(state.reads.length, 1)
  const { promise, resolve } = Promise.withResolvers<void>()
  state.stall = promise
  const callers = [listAt(NOW_MS + 1_000), listAt(NOW_MS + 9_000)]
  resolve()
  assert.deepEqual(await Promise.all(callers), [nothing, nothing])
  assert.equal(state.reads.length, 2)
})

test('an end is listed for 65 minutes, and a read begins two minutes before the last one', async () => {
  const { state, listAt, endAt } = await openFeed()
  const id = await endAt(NOW_MS)
  await listAt(NOW_MS)
  const endMs = NOW_MS + LISTED_MS
  assert.deepEqual((await listAt(endMs - 1_000))?.ids, [id])
  assert.deepEqual((await listAt(endMs))?.ids, [])
  assert.deepEqual(state.reads, [NOW_MS - LISTED_MS, NOW_MS - 1_000, endMs - 1_000 - LATE_MS])
})

test('a cursor repeats ten seconds, and may be ahead by five', async () => {
  const { listAt, endAt } = await openFeed()
  const id = await endAt(NOW_MS)
  assert.deepEqual(await listAt(NOW_MS), { ids: [id], nextMs: NOW_MS })
  const afterMs = NOW_MS + 10_000
  assert.deepEqual(await listAt(afterMs, afterMs - 1), { ids: [id], nextMs: afterMs - 1 })
  assert.deepEqual(await listAt(afterMs, afterMs), { ids: [], nextMs: afterMs })
  assert.deepEqual(await listAt(afterMs, afterMs + 5_000), { ids: [], nextMs: afterMs + 5_000 })
  assert.equal(await listAt(afterMs, afterMs + 5_001), null)
})

test('after a start, callers have been told the ends of more than two minutes ago', async () => {
  const { listAt, endAt } = await openFeed()
  const seenMs = NOW_MS - 60_000
  const [older, newer] = [await endAt(seenMs - LATE_MS), await endAt(seenMs)]
  const knownFromMs = seenMs + 10_000
  assert.deepEqual((await listAt(NOW_MS, knownFromMs - 1))?.ids, [older, newer])
  assert.deepEqual((await listAt(NOW_MS, knownFromMs))?.ids, [newer])
})

test('after the clock was set back, all ends are listed again', async () => {
  const { listAt, endAt } = await openFeed()
  const endedMs = NOW_MS - 10 * 60_000
  const id = await endAt(endedMs)
  await listAt(NOW_MS)
  assert.deepEqual(await listAt(NOW_MS - 60_000), { ids: [id], nextMs: endedMs + LATE_MS })
})

test('10,001 ends of one moment are read by two statements', async () => {
  const { state, listAt, database } = await openFeed()
  await database.rows(`insert into ended_sessions (id, ended_at)
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 10001)
    select printf('00000000-0000-4000-8000-%012d', i), '2030-01-01T00:00:00.000Z' from n`)
  const listed = await listAt(NOW_MS)
  assert.equal(new Set(listed?.ids).size, 10_001)
  assert.equal(listed?.ids.length, 10_001)
  assert.equal(state.reads.length, 2)
})
