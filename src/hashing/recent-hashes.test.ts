import assert from 'node:assert/strict'
import { test } from 'node:test'
import { heapGrowth } from '../../test/support/heap.ts'
import { createRecentHashes, REMEMBERED_MS } from './recent-hashes.ts'

/** Without a limit, the names of the test take 70 MiB. */
const MOST_BYTES = 20 * 2 ** 20

test('a hash is counted under each of its names until its time is over', () => {
  let now = 0
  const recent = createRecentHashes(() => now)
  recent.add(['ann', 'office'])
  now = 1_000
  recent.add(['ben', 'office'])
  now = REMEMBERED_MS - 1
  assert.deepEqual(['ann', 'ben', 'office', 'eve'].map(recent.countOf), [1, 1, 2, 0])
  now = REMEMBERED_MS
  assert.deepEqual(['ann', 'ben', 'office'].map(recent.countOf), [0, 1, 1])
  now = REMEMBERED_MS + 1_000
  assert.deepEqual(['ann', 'ben', 'office'].map(recent.countOf), [0, 0, 0])
  recent.add(['ann'])
  now += REMEMBERED_MS - 1
  assert.equal(recent.countOf('ann'), 1)
  now += 1
  assert.equal(recent.countOf('ann'), 0)
})

test('200,000 clients leave nothing behind', async () => {
  let now = 0
  const recent = createRecentHashes(() => now)
  const grown = await heapGrowth(() => {
    // A thousand hashes per second: hundreds of cores at the default cost.
    for (const end = now + 200_000; now < end; now++)
      recent.add([`account ${now}`, `client ${now}`, `network ${now}`])
  })
  assert.ok(grown < MOST_BYTES, `${grown} bytes`)
  assert.equal(recent.countOf(`client ${now - 1}`), 1)
})
