import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { openTestStore } from '../../test/support/engines.ts'
import type { SessionStore } from '../domain/session.ts'
import { type Cursor, createEndedFeed } from './ended-feed.ts'

const NOW_MS = Date.parse('2030-01-01T00:00:00Z')
const LISTED_MS = 65 * 60_000
const LATE_MS = 2 * 60_000
const BLOCK_MS = 10_000

async function openFeed() {
  const { store, database } = await openTestStore('sqlite')
  const state = {
    nowMs: NOW_MS,
    /** The moment from which on each statement lists the ends. */
    reads: [] as number[],
    /** How many the last answer had. */
    blocks: 0,
    /** A statement does not end before this does. */
    stall: Promise.resolve(),
  }
  const listEnded: SessionStore['listEnded'] = async (from, limit) => {
    state.reads.push(from.endedAt.getTime())
    await state.stall
    return store.sessions.listEnded(from, limit)
  }
  const { hasMoreEnded } = store.sessions
  const feed = createEndedFeed({ hasMoreEnded, listEnded }, () => new Date(state.nowMs))
  return {
    state,
    database,
    async listAt(nowMs: number, cursor?: number | Cursor) {
      state.nowMs = nowMs
      const found = await feed.list(
        typeof cursor === 'number' ? { seenMs: cursor, last: null } : cursor,
      )
      if (!found) return null
      state.blocks = found.page.length
      const json = Buffer.concat(found.page.map(block => block.json)).subarray(1)
      const ids: string[] = JSON.parse(`[${json}]`)
      return { ids, ...found.next }
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
  const nothing = { ids: [], seenMs: 0, last: null }
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

test('callers share a read that fails, too, and the next read lists all ends', async () => {
  const { state, listAt, endAt } = await openFeed()
  const { seenMs } = (await listAt(NOW_MS)) ?? {}
  const id = await endAt(NOW_MS + 1_000)
  state.stall = Promise.reject(new Error('gone'))
  for (const ms of [1_000, 1_500, 1_999]) await assert.rejects(listAt(NOW_MS + ms), /gone/)
  assert.equal(state.reads.length, 2)
  state.stall = Promise.resolve()
  assert.deepEqual((await listAt(NOW_MS + 3 * 60_000, seenMs))?.ids, [id])
})

test('a read lists the last ends again, and those of two minutes if one of them was late', async () => {
  const { state, listAt, endAt } = await openFeed()
  const ids = [await endAt(NOW_MS - LISTED_MS), await endAt(NOW_MS - LATE_MS)]
  await listAt(NOW_MS)
  await listAt(NOW_MS + 1_000)
  ids.splice(1, 0, await endAt(NOW_MS - LATE_MS))
  const { ids: listed = [] } = (await listAt(NOW_MS + 2_000)) ?? {}
  assert.deepEqual(listed.toSorted(), ids.toSorted())
  assert.deepEqual(state.reads, [NOW_MS - LISTED_MS, NOW_MS - BLOCK_MS, NOW_MS - LATE_MS])
})

test('a cursor repeats ten seconds, and may be ahead by five', async () => {
  const { listAt, endAt } = await openFeed()
  const id = await endAt(NOW_MS)
  assert.deepEqual(await listAt(NOW_MS), { ids: [id], seenMs: NOW_MS, last: null })
  const afterMs = NOW_MS + 10_000
  assert.deepEqual((await listAt(afterMs, afterMs - 1))?.ids, [id])
  for (const seenMs of [afterMs, afterMs + 5_000]) {
    assert.deepEqual(await listAt(afterMs, seenMs), { ids: [], seenMs, last: null })
  }
  assert.equal(await listAt(afterMs, afterMs + 5_001), null)
})

test('an end that becomes visible during a long read, or during the read of another instance, is new to every caller', async () => {
  const { state, listAt, endAt } = await openFeed()
  await listAt(NOW_MS)
  const { promise, resolve } = Promise.withResolvers<void>()
  state.stall = promise
  const reading = listAt(NOW_MS + 1_000)
  const id = await endAt(NOW_MS + 20_000)
  state.nowMs = NOW_MS + 30_000
  resolve()
  assert.deepEqual(await reading, { ids: [id], seenMs: NOW_MS + 1_000, last: null })
  // The cursor of an instance that read the database in the meantime, and did not find it.
  assert.deepEqual((await listAt(NOW_MS + 30_000, NOW_MS + 19_000))?.ids, [id])
})

test('after a start, ends of more than about two minutes ago are not new to a caller', async () => {
  const { listAt, endAt } = await openFeed()
  await endAt(NOW_MS - 5 * 60_000)
  const id = await endAt(NOW_MS)
  assert.deepEqual((await listAt(NOW_MS, NOW_MS - 60_000))?.ids, [id])
})

test('after the clock was set back, all ends are listed again', async () => {
  const { listAt, endAt } = await openFeed()
  const id = await endAt(NOW_MS - 10 * 60_000)
  await listAt(NOW_MS)
  const seenMs = NOW_MS - 60_000
  assert.deepEqual(await listAt(seenMs), { ids: [id], seenMs, last: null })
  assert.equal((await listAt(NOW_MS - 2 * LISTED_MS))?.seenMs, NOW_MS - 2 * LISTED_MS)
})

test('10,001 ends of one moment are read by two statements, and come in two pages', async () => {
  const { state, listAt, endAt, database } = await openFeed()
  await database.rows(`insert into ended_sessions (id, ended_at)
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 10001)
    select printf('00000000-0000-4000-8000-%012d', i), '2030-01-01T00:00:00.000Z' from n`)
  const first = await listAt(NOW_MS)
  assert.equal(first?.ids.length, 10_000)
  assert.equal(state.reads.length, 2)
  assert.equal(state.blocks, 10)
  const before = { endedAt: new Date(NOW_MS - 1), id: 'ffffffff-ffff-4fff-bfff-ffffffffffff' }
  const { ids } = (await listAt(NOW_MS, { seenMs: NOW_MS, last: before })) ?? {}
  assert.deepEqual(ids, first.ids)
  // Before the place that the caller has reached.
  const early = await endAt(NOW_MS - 1)
  const { seenMs, last } = first
  const rest = await listAt(NOW_MS + 20_000, { seenMs, last })
  assert.deepEqual([rest?.ids.length, rest?.seenMs, rest?.last], [1, NOW_MS, null])
  assert.equal(new Set([...first.ids, ...(rest?.ids ?? [])]).size, 10_001)
  assert.ok((await listAt(NOW_MS + 20_000, seenMs))?.ids.includes(early))
})
