// The loop over all faults of one operation: the k-th call fails, for every k until the fault is no longer reached.
// The engines take turns, and for statements the kinds of faults too: each operation of the store meets every fault on
// one engine, and each statement one fault on one engine. With `PROOF=full` each call meets every fault on both engines.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { EngineName } from '../../../src/storage/sql/engine.ts'
import { ENGINES } from '../../support/engines.ts'
import { IS_FULL } from '../../support/proof.ts'
import type { Fault, FaultKind, Faults, FaultUnit, Met } from './faults.ts'

/** One run of an operation, with a user of its own. */
export type Case<Outcome> = {
  run: () => Promise<Outcome>
  /** The status of the answer that a request gets, unless that is 200. */
  success?: number
  /** The user that must be able to log in afterwards as its row says. */
  email?: string
  /** The folder in which a command changes files. */
  folder?: string
  /** Several transactions: it may have been done in part, or wholly, although it failed. */
  isInParts?: boolean
  /** Whether its effect is stored; left out if it has none. */
  isDone?: (outcome: Outcome) => Promise<boolean>
  /** How often the audit has the change, if the change and its event share a transaction. */
  countEvents?: () => Promise<number>
}

/** By its title, what prepares an operation. */
export type Operations<Outcome> = Record<string, () => Promise<Case<Outcome>>>

/** What a kind of operations has in common. */
export type Judge<Outcome> = {
  isSuccess: (outcome: Outcome, prepared: Case<Outcome>) => boolean
  /** Says what is wrong with the outcome of an operation that failed; null if nothing is. */
  findWrongFailure: (outcome: Outcome) => string | null
  /** Says what is wrong after a case: with what is stored, and with the next requests. */
  findProblems: (prepared: Case<Outcome>, met: Met) => Promise<string[]>
}

/** Which calls fail, and what must be true afterwards. `clear` removes what the cases of an operation have stored. */
export type Proof<Outcome> = {
  faults: Faults
  judge: Judge<Outcome>
  unit: FaultUnit
  engine: EngineName
  /** All that the calls can meet, if it is left out. */
  kinds?: FaultKind[]
  clear?: () => Promise<void>
}

/** More calls than any operation makes. */
const MOST_CALLS = 1_000

/** Proves each operation in a test of its own and prints the number of cases. */
export async function proveAll<Outcome>(
  context: TestContext,
  title: string,
  operations: Operations<Outcome>,
  { faults, judge, unit, engine, kinds = kindsOf(unit, engine), clear }: Proof<Outcome>,
): Promise<void> {
  const steps = { file: 1, operation: ENGINES.length, statement: ENGINES.length * kinds.length }
  const step = IS_FULL ? 1 : steps[unit]
  let cases = 0

  /** Returns how many calls the operation has made. */
  async function prove(name: string, prepare: () => Promise<Case<Outcome>>, fault: Fault) {
    const prepared = await prepare()
    const { value, calls, ...met } = await faults.during(fault, unit, prepared.run)
    const isReached = calls >= fault.at
    const problems = await judgeOutcome(prepared, value, judge, isReached && fault, met)
    problems.push(...(await judge.findProblems(prepared, met)))
    const { at, kind, isLasting } = fault
    const what = `${unit} ${at} ${kind}${isLasting ? ' from then on' : ''}`
    assert.deepEqual(problems, [], `${name}: ${isReached ? what : 'without a fault'}`)
    if (isReached) cases++
    return calls
  }

  const all = Object.entries(operations)
  for (const [number, [name, prepare]] of all.entries()) {
    await context.test(name, async () => {
      // Until it meets the fault, every run makes the same calls.
      let last = MOST_CALLS
      for (const [index, kind] of kinds.entries()) {
        const turn = index * ENGINES.length + ENGINES.indexOf(engine) + number
        const canLast = IS_FULL || (kind === 'error' && unit !== 'statement')
        for (let at = 1 + (turn % step); at <= last; at += step) {
          const calls = await prove(name, prepare, { at, kind, isLasting: false })
          if (calls < at) last = calls
          // If no call comes after the fault, a lasting one is the same.
          else if (canLast && calls > at) await prove(name, prepare, { at, kind, isLasting: true })
        }
      }
      assert.ok(last < MOST_CALLS, `${name} does not end`)
    })
    await clear?.()
  }
  assert.ok(cases >= all.length / 2, 'some make no call that could fail')
  context.diagnostic(`${title}: ${all.length} operations, ${cases} cases`)
}

function kindsOf(unit: FaultUnit, engine: EngineName): FaultKind[] {
  // A statement of SQLite and an operation on a file have ended when they return: neither can take effect later.
  const canBeLate =
    unit === 'operation' || (unit === 'statement' && engine === 'postgres' && IS_FULL)
  return canBeLate ? ['error', 'timeout', 'lost'] : ['error', 'lost']
}

async function judgeOutcome<Outcome>(
  prepared: Case<Outcome>,
  outcome: Outcome,
  judge: Judge<Outcome>,
  fault: Fault | false,
  { hits }: Met,
) {
  const problems: string[] = []
  const isSuccess = judge.isSuccess(outcome, prepared)
  const isStored = prepared.isDone ? await prepared.isDone(outcome) : isSuccess
  if (isSuccess && !isStored) problems.push('success, but nothing is stored')
  if (!isSuccess) {
    const wrong = judge.findWrongFailure(outcome)
    if (wrong) problems.push(wrong)
    if (!fault) problems.push(`it failed without a fault: ${JSON.stringify(outcome)}`)
    // A file that cannot be removed either, after another fault, stays.
    const mayStay = prepared.isInParts || (hits.length > 1 && hits.includes('unlink'))
    if (isStored && fault && fault.kind === 'error' && !mayStay) {
      problems.push('it failed, but its effect is stored')
    }
  }
  const events = await prepared.countEvents?.()
  if (events !== undefined && events !== Number(isStored)) {
    problems.push(`${events} events in the audit, but ${isStored ? 'it is' : 'nothing is'} stored`)
  }
  return problems
}
