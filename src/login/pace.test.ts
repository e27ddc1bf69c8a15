import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { settled } from '../../test/hashing/simulated-hasher.ts'
import { heapGrowth } from '../../test/support/heap.ts'
import { createPace } from './pace.ts'

/** The names of all clients of the test take 4 MB. */
const MOST_BYTES = 1e6

/** A pace with a clock that the test moves. */
function createRig() {
  let now = 1e6
  let waiting: { untilMs: number; end: () => void }[] = []
  const pace = createPace(
    () => now,
    ms => new Promise<void>(end => waiting.push({ untilMs: now + ms, end })),
  )
  /** Refuses as often as this at one moment; tells how many refusals have been answered. */
  function refuse(client: string, count: number): () => number {
    let answered = 0
    for (let i = 0; i < count; i++) {
      pace.arrive(client)
      void pace.beforeRefusal(client).then(() => answered++)
    }
    return () => answered
  }
  async function pass(ms: number): Promise<void> {
    now += ms
    const due = waiting.filter(({ untilMs }) => untilMs <= now)
    waiting = waiting.filter(({ untilMs }) => untilMs > now)
    for (const { end } of due) end()
    await settled()
  }
  return { pace, refuse, pass }
}

describe('refusals', () => {
  test('of a client that comes alone are not delayed', async () => {
    const { refuse, pass } = createRig()
    const answered = refuse('office', 10_000)
    await pass(0)
    assert.equal(answered(), 10_000)
  })

  test('of one client are delayed after a burst, to 100 per second, while others come, and theirs are not', async () => {
    const { pace, refuse, pass } = createRig()
    pace.arrive('stranger')
    const answered = refuse('attacker', 100)
    const answeredToStranger = refuse('stranger', 10)
    await pass(0)
    assert.deepEqual([answered(), answeredToStranger()], [50, 10])
    await pass(250)
    assert.equal(answered(), 75)
    await pass(250)
    assert.equal(answered(), 100)
  })

  test('are no longer delayed ten seconds after the last other client', async () => {
    for (const afterMs of [9_999, 10_000]) {
      const { pace, refuse, pass } = createRig()
      pace.arrive('stranger')
      refuse('attacker', 100)
      await pass(afterMs)
      const answered = refuse('attacker', 100)
      await pass(0)
      assert.equal(answered(), afterMs === 10_000 ? 100 : 50)
    }
  })

  test('are delayed by a second at most, and hold at most 1,024 connections', async () => {
    const { pace, refuse, pass } = createRig()
    pace.arrive('stranger')
    const answered = refuse('attacker', 50 + 1_024 + 7)
    await pass(0)
    assert.equal(answered(), 57)
    await pass(1_000)
    assert.equal(answered(), 50 + 1_024 + 7)
    const later = refuse('attacker', 1_024 + 7)
    await pass(0)
    assert.equal(later(), 7)
  })

  test('of 4,000 clients leave nothing behind, even if one client is always refused', async () => {
    let now = 0
    const pace = createPace(
      () => now,
      async () => {},
    )
    const grown = await heapGrowth(async () => {
      for (const end = now + 4_000; now < end; now++) {
        for (const client of ['attacker', randomBytes(500).toString('hex')]) {
          pace.arrive(client)
          await pace.beforeRefusal(client)
        }
      }
    })
    assert.ok(grown < MOST_BYTES, `${grown} bytes`)
  })
})
