import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pagesOf, toPage } from './pages.ts'

const ITEMS = Array.from({ length: 2_500 }, (_, index) => ({ id: index + 1 }))

const readAfter = async (id: number | null, limit: number) =>
  toPage(ITEMS.slice(id ?? 0, (id ?? 0) + limit), limit)

async function collect<T>(pages: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = []
  for await (const page of pages) collected.push(page)
  return collected
}

test('all pages have all items once, in their order', async () => {
  const pages = await collect(pagesOf(readAfter))
  assert.deepEqual(pages.flat(), ITEMS)
  assert.equal(pages.length, 3)
})

test('no more items are read than the limit allows', async () => {
  for (const limit of [1, 999, 1_000, 1_001, 2_500, 9_999]) {
    const pages = await collect(pagesOf(readAfter, limit))
    assert.deepEqual(pages.flat(), ITEMS.slice(0, limit), String(limit))
  }
})

test('an empty page before the end is left out, and the list goes on', async () => {
  const answers = [
    { items: ['a'], next: 1 },
    { items: [], next: 2 },
    { items: ['b'], next: null },
  ]
  const pages = pagesOf(async (from: number | null) => answers[from ?? 0] ?? assert.fail())
  assert.deepEqual(await collect(pages), [['a'], ['b']])
})
