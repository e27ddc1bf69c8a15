import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { createHashQueue } from './hash-queue.ts'

/** A queue with a clock and jobs that the test controls. Its first estimate of a hash is `hashMs`. */
function createRig(workers: number, hashMs = 100) {
  let now = 0
  const queue = createHashQueue(workers, hashMs, () => now)
  const begun: string[] = []
  const ends = new Map<string, () => void>()

  /** Moves the clock by `afterMs`, then ends the job of this name. */
  async function end(name: string, afterMs = hashMs): Promise<void> {
    now += afterMs
    ends.get(name)?.()
    await nextTurn()
  }
  function job(name: string) {
    return () => {
      begun.push(name)
      return new Promise<string>(resolve => ends.set(name, () => resolve(name)))
    }
  }
  /** A slot for an attempt that must be answered within `withinMs`; null if it is shed. */
  async function admit(withinMs = 1_000, knownAccount: string | null = null) {
    return queue.admit(now + withinMs, knownAccount)
  }
  /** Asks for a slot and, if there is one, runs the job in it. */
  async function arrive(name: string, withinMs = 1_000, knownAccount?: string) {
    const slot = await admit(withinMs, knownAccount)
    return { isAdmitted: slot !== null, result: slot?.run(now + withinMs, job(name)) }
  }
  return { queue, begun, end, job, admit, arrive }
}

/** The result, or "waits" if there is none yet. */
async function resultOf<T>(promise: Promise<T> | undefined): Promise<T | undefined | 'waits'> {
  await nextTurn()
  return Promise.race([promise, 'waits' as const])
}

describe('hashing', () => {
  for (const workers of [1, 2, 3]) {
    test(`runs exactly ${workers} hashes at a time, in the order of arrival`, async () => {
      const { arrive, begun, end } = createRig(workers)
      const names = ['a', 'b', 'c', 'd', 'e']
      for (const name of names) await arrive(name)
      for (const [index, name] of names.entries()) {
        assert.deepEqual(begun, names.slice(0, index + workers))
        await end(name, 10)
      }
    })
  }

  test('continues after a job that fails', async () => {
    const { admit, arrive, begun } = createRig(1)
    const failing = (await admit())?.run(1_000, () => Promise.reject(new Error('broken')))
    await arrive('next')
    await assert.rejects(failing ?? Promise.resolve(), /broken/)
    await nextTurn()
    assert.deepEqual(begun, ['next'])
  })

  test('skips an attempt that is too late and runs the next one', async () => {
    const { arrive, begun, end } = createRig(1)
    await arrive('slow')
    const late = await arrive('late', 500)
    const patient = await arrive('patient', 2_000)
    assert.ok(late.isAdmitted && patient.isAdmitted)
    await end('slow', 450)
    assert.equal(await late.result, null)
    assert.deepEqual(begun, ['slow', 'patient'])
  })
})

describe('a hash slot', () => {
  test('is given to as many attempts as can be answered in time', async () => {
    const { arrive, end } = createRig(2)
    // 2 begin at once. 12 more end after 200 to 700 ms, which leaves the margin of 250 ms.
    for (let i = 0; i < 14; i++) assert.ok((await arrive(`job ${i}`)).isAdmitted, `job ${i}`)
    assert.equal((await arrive('too late')).isAdmitted, false)
    assert.equal((await arrive('too late as well')).isAdmitted, false)
    assert.ok((await arrive('patient', 1_100)).isAdmitted)
    assert.equal((await arrive('behind the patient one', 1_000)).isAdmitted, false)
    await end('job 0')
    await end('job 1', 0)
    assert.ok((await arrive('after two have ended')).isAdmitted)
  })

  test('can still be reached by an attempt that waits for its scope only if time is left', () => {
    const { queue } = createRig(8, 250)
    for (const [ahead, capacity, hasTime] of [
      [0, 5, true],
      [9, 5, true],
      [10, 5, false],
      [1, 1, true],
      [2, 1, false],
    ] as const) {
      assert.equal(queue.hasTimeFor(1_000, ahead, capacity), hasTime, `${ahead} of ${capacity}`)
    }
  })

  test('is given when a core is idle, even if a single hash takes too long', async () => {
    const { arrive, end } = createRig(2, 5_000)
    assert.ok((await arrive('first')).isAdmitted)
    assert.ok((await arrive('second')).isAdmitted)
    assert.equal((await arrive('third')).isAdmitted, false)
    await end('first')
    assert.ok((await arrive('fourth')).isAdmitted)
  })

  test('is given to fewer attempts when hashes take longer', async () => {
    const { arrive, end } = createRig(1)
    for (let i = 0; i < 60; i++) {
      assert.ok((await arrive(`slow ${i}`)).isAdmitted)
      await end(`slow ${i}`, 400)
    }
    assert.ok((await arrive('one')).isAdmitted)
    assert.equal((await arrive('two')).isAdmitted, false)
  })

  test('that is released goes to the attempt that waits for it', async () => {
    const { admit, arrive } = createRig(1, 500)
    const unused = await admit()
    const waiting = arrive('waiting')
    assert.equal(await resultOf(waiting), 'waits')
    unused?.release()
    assert.ok((await waiting).isAdmitted)
  })

  test('that is used sheds the attempt that waits for it', async () => {
    const { admit, arrive, job } = createRig(1, 500)
    const unused = await admit()
    const waiting = arrive('waiting')
    void unused?.run(1_000, job('taken'))
    assert.equal((await waiting).isAdmitted, false)
  })

  test('is not waited for longer than the time of the attempt', async () => {
    const { admit, arrive, end } = createRig(2, 900)
    await arrive('running')
    const unused = await admit()
    const waiting = admit(1_000)
    const patient = admit(60_000)
    assert.equal(await resultOf(waiting), 'waits')
    await end('running', 1_500)
    assert.equal(await waiting, null)
    assert.ok(await patient)
    unused?.release()
  })
})

describe('known devices', () => {
  test('have priority, and get a slot while other attempts are shed', async () => {
    const { arrive, begun, end } = createRig(1, 300)
    await arrive('running')
    assert.ok((await arrive('unknown device')).isAdmitted)
    assert.equal((await arrive('another unknown device')).isAdmitted, false)
    assert.ok((await arrive('owner', 1_000, 'ann')).isAdmitted)
    await end('running')
    await end('owner')
    assert.deepEqual(begun, ['running', 'owner', 'unknown device'])
  })

  test('have priority with one attempt per account at a time', async () => {
    const { arrive, begun, end } = createRig(1)
    await arrive('running')
    await arrive('unknown device')
    await arrive('owner', 1_000, 'ann')
    await arrive('owner again', 1_000, 'ann')
    await arrive('another owner', 1_000, 'ben')
    for (const name of ['running', 'owner', 'another owner']) await end(name, 10)
    await arrive('owner later', 1_000, 'ann')
    await end('unknown device', 10)
    await end('owner later', 10)
    assert.deepEqual(begun, [
      'running',
      'owner',
      'another owner',
      'unknown device',
      'owner later',
      'owner again',
    ])
  })

  test('have priority again after an attempt that was shed or released its slot', async () => {
    const { admit, arrive, begun, end } = createRig(1, 5_000)
    await arrive('running')
    assert.equal(await admit(1_000, 'ann'), null)
    ;(await admit(60_000, 'ann'))?.release()
    await arrive('unknown device', 60_000)
    await arrive('owner', 60_000, 'ann')
    await end('running')
    assert.deepEqual(begun, ['running', 'owner'])
  })
})

describe('a job that no caller waits for', () => {
  test('runs after all logins, and is dropped if too many wait', async () => {
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

test('every attempt gets an answer and every slot is released', async () => {
  const step = fc.record({
    act: fc.constantFrom('run', 'release', 'fail', 'last'),
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
          await nextTurn()
          now += takesMs
          running--
          if (isBroken) throw new Error('broken')
          return true
        }
        await Promise.allSettled(
          steps.map(async ({ act, withinMs, takesMs, account }) => {
            if (act === 'last') return queue.runLast(work(takesMs, false))
            const slot = await queue.admit(now + withinMs, account)
            await nextTurn()
            if (act === 'release') slot?.release()
            else await slot?.run(now + withinMs, work(takesMs, act === 'fail'))
          }),
        )
        assert.equal(running, 0)
        const slots = Array.from({ length: workers }, () => queue.admit(now + 1, 'ann'))
        assert.ok((await Promise.all(slots)).every(slot => slot !== null))
      },
    ),
    { numRuns: 300 },
  )
})
