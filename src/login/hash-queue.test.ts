import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import fc from 'fast-check'
import { createHashQueue } from './hash-queue.ts'

/** A queue whose hashes take 100 ms each, on a clock and with jobs that the test moves. */
function createRig(workers: number, hashMs = 100) {
  let now = 0
  const queue = createHashQueue(workers, hashMs, () => now)
  const begun: string[] = []
  const ends = new Map<string, () => void>()

  /** Ends the job of this name after so many more milliseconds. */
  async function end(name: string, afterMs = hashMs): Promise<void> {
    now += afterMs
    ends.get(name)?.()
    await turnOfTheLoop()
  }
  function job(name: string) {
    return () => {
      begun.push(name)
      return new Promise<string>(resolve => ends.set(name, () => resolve(name)))
    }
  }
  /** To be answered within a second, unless told otherwise; null if there is no place. */
  async function enter(withinMs = 1_000, knownAccount: string | null = null) {
    return queue.admit(now + withinMs, knownAccount)
  }
  /** Enters and is hashed, or is turned away. */
  async function arrive(name: string, withinMs = 1_000, knownAccount?: string) {
    const place = await enter(withinMs, knownAccount)
    return { isIn: place !== null, result: place?.run(now + withinMs, job(name)) }
  }
  return { queue, begun, end, job, enter, arrive }
}

/** What it has come to by now. */
async function resultOf<T>(promise: Promise<T> | undefined): Promise<T | undefined | 'waits'> {
  await turnOfTheLoop()
  return Promise.race([promise, 'waits' as const])
}

describe('turns', () => {
  for (const workers of [1, 2, 3]) {
    test(`of ${workers}: never more at a time, never fewer, in the order of arrival`, async () => {
      const { arrive, begun, end } = createRig(workers)
      const names = ['a', 'b', 'c', 'd', 'e']
      for (const name of names) await arrive(name)
      for (const [index, name] of names.entries()) {
        assert.deepEqual(begun, names.slice(0, index + workers))
        await end(name, 10)
      }
    })
  }

  test('are given back by jobs that fail', async () => {
    const { enter, arrive, begun } = createRig(1)
    const failing = (await enter())?.run(1_000, () => Promise.reject(new Error('broken')))
    await arrive('next')
    await assert.rejects(failing ?? Promise.resolve(), /broken/)
    await turnOfTheLoop()
    assert.deepEqual(begun, ['next'])
  })

  test('that come too late are not taken, and the next one is', async () => {
    const { arrive, begun, end } = createRig(1)
    await arrive('slow')
    const late = await arrive('late', 500)
    const patient = await arrive('patient', 2_000)
    assert.ok(late.isIn && patient.isIn)
    await end('slow', 450)
    assert.equal(await late.result, null)
    assert.deepEqual(begun, ['slow', 'patient'])
  })
})

describe('a place', () => {
  test('is there for as many as can be answered in time, and for nobody else', async () => {
    const { arrive, end } = createRig(2)
    // 2 begin at once; 12 more end after 200 to 700 ms, which leaves the margin of 250 ms.
    for (let i = 0; i < 14; i++) assert.ok((await arrive(`job ${i}`)).isIn, `job ${i}`)
    assert.equal((await arrive('too late')).isIn, false)
    assert.equal((await arrive('too late as well')).isIn, false)
    assert.ok((await arrive('patient', 1_100)).isIn)
    assert.equal((await arrive('behind the patient one', 1_000)).isIn, false)
    await end('job 0')
    await end('job 1', 0)
    assert.ok((await arrive('after two have ended')).isIn)
  })

  test('in a scope is worth waiting for only if the scope can be served in time', () => {
    const { queue } = createRig(8, 250)
    for (const [before, atATime, isWorthIt] of [
      [0, 5, true],
      [9, 5, true],
      [10, 5, false],
      [1, 1, true],
      [2, 1, false],
    ] as const) {
      assert.equal(queue.hasTimeFor(1_000, before, atATime), isWorthIt, `${before} of ${atATime}`)
    }
  })

  test('is there when a core is idle, even if a single hash takes too long', async () => {
    const { arrive, end } = createRig(2, 5_000)
    assert.ok((await arrive('first')).isIn)
    assert.ok((await arrive('second')).isIn)
    assert.equal((await arrive('third')).isIn, false)
    await end('first')
    assert.ok((await arrive('fourth')).isIn)
  })

  test('is there for fewer once hashes take longer', async () => {
    const { arrive, end } = createRig(1)
    for (let i = 0; i < 60; i++) {
      assert.ok((await arrive(`slow ${i}`)).isIn)
      await end(`slow ${i}`, 400)
    }
    assert.ok((await arrive('one')).isIn)
    assert.equal((await arrive('two')).isIn, false)
  })

  test('that is left again is for whoever waits at the door', async () => {
    const { enter, arrive } = createRig(1, 500)
    const undecided = await enter()
    const waiting = arrive('waits at the door')
    assert.equal(await resultOf(waiting), 'waits')
    undecided?.release()
    assert.ok((await waiting).isIn)
  })

  test('that is taken turns away whoever waits at the door', async () => {
    const { enter, arrive, job } = createRig(1, 500)
    const undecided = await enter()
    const waiting = arrive('waits at the door')
    void undecided?.run(1_000, job('taken'))
    assert.equal((await waiting).isIn, false)
  })

  test('is no longer waited for at the door once the time is up', async () => {
    const { enter, arrive, end } = createRig(2, 900)
    await arrive('running')
    const undecided = await enter()
    const waiting = enter(1_000)
    const patient = enter(60_000)
    assert.equal(await resultOf(waiting), 'waits')
    await end('running', 1_500)
    assert.equal(await waiting, null)
    assert.ok(await patient)
    undecided?.release()
  })
})

describe('known devices', () => {
  test('go first, and are let in while there is no room for others', async () => {
    const { arrive, begun, end } = createRig(1, 300)
    await arrive('running')
    assert.ok((await arrive('stranger')).isIn)
    assert.equal((await arrive('another stranger')).isIn, false)
    assert.ok((await arrive('owner', 1_000, 'ann')).isIn)
    await end('running')
    await end('owner')
    assert.deepEqual(begun, ['running', 'owner', 'stranger'])
  })

  test('go first with one attempt of an account at a time', async () => {
    const { arrive, begun, end } = createRig(1)
    await arrive('running')
    await arrive('stranger')
    await arrive('owner', 1_000, 'ann')
    await arrive('owner again', 1_000, 'ann')
    await arrive('another owner', 1_000, 'ben')
    for (const name of ['running', 'owner', 'another owner']) await end(name, 10)
    await arrive('owner later', 1_000, 'ann')
    await end('stranger', 10)
    await end('owner later', 10)
    assert.deepEqual(begun, [
      'running',
      'owner',
      'another owner',
      'stranger',
      'owner later',
      'owner again',
    ])
  })

  test('that were turned away or refused go first the next time', async () => {
    const { enter, arrive, begun, end } = createRig(1, 5_000)
    await arrive('running')
    assert.equal(await enter(1_000, 'ann'), null)
    ;(await enter(60_000, 'ann'))?.release()
    await arrive('stranger', 60_000)
    await arrive('owner', 60_000, 'ann')
    await end('running')
    assert.deepEqual(begun, ['running', 'owner'])
  })
})

describe('work that nobody waits for', () => {
  test('is done when nothing else is to do, and only so much of it is kept', async () => {
    const { queue, arrive, begun, end, job } = createRig(1)
    await arrive('running')
    void queue.runLast(job('last'))
    assert.equal(await queue.runLast(job('one too many')), null)
    await arrive('login')
    await end('running')
    await end('login')
    assert.deepEqual(begun, ['running', 'login', 'last'])
  })
})

test('whatever happens, everyone gets an answer and every place comes back', async () => {
  const step = fc.record({
    act: fc.constantFrom('run', 'leave', 'fail', 'last'),
    withinMs: fc.integer({ min: 0, max: 2_000 }),
    takesMs: fc.integer({ min: 0, max: 400 }),
    account: fc.constantFrom(null, 'ann', 'ben'),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.array(step, { maxLength: 60 }),
      async (workers, steps) => {
        let now = 0
        let running = 0
        const queue = createHashQueue(workers, 100, () => now)
        const work = (takesMs: number, isBroken: boolean) => async () => {
          assert.ok(++running <= workers)
          await turnOfTheLoop()
          now += takesMs
          running--
          if (isBroken) throw new Error('broken')
          return true
        }
        await Promise.allSettled(
          steps.map(async ({ act, withinMs, takesMs, account }) => {
            if (act === 'last') return queue.runLast(work(takesMs, false))
            const place = await queue.admit(now + withinMs, account)
            await turnOfTheLoop()
            if (act === 'leave') place?.release()
            else await place?.run(now + withinMs, work(takesMs, act === 'fail'))
          }),
        )
        assert.equal(running, 0)
        const places = Array.from({ length: workers }, () => queue.admit(now + 1, 'ann'))
        assert.ok((await Promise.all(places)).every(place => place !== null))
      },
    ),
    { numRuns: 300 },
  )
})
