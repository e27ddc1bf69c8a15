// The loop over all faults of one operation: the k-th call fails, for every k until the fault is no longer reached.
// The engines take turns, and for statements the kinds of faults too: each operation of the store meets every fault on
// one engine, and each statement one fault on one engine. With `PROOF=full` each call meets every fault on both engines.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { EngineName } from '../../../src/storage/sql/engine.ts'
import { ENGINES } from '../../support/engines.ts'
import { IS_FULL } from '../../support/proof.ts'
import type { Fault, FaultKind, Faults, FaultUnit, Performed } from './faults.ts'

/** One run of an operation, with a user of its own. */
export type Case<Outcome> = {
  /** The user that must be able to log in afterwards as its row says; null if there is none. */
  email: string | null
  run: () => Promise<Outcome>
  /** Whether its effect is stored; left out if it has none. */
  isDone?: (outcome: Outcome) => Promise<boolean>
  /** How often the audit has the change, if the change and its event share a transaction. */
  countEvents?: () => Promise<number>
}

export type Operation<Outcome> = {
  title: string
  /** Several transactions: it may have been done in part, or wholly, although it failed. */
  isInParts?: boolean
  prepare: () => Promise<Case<Outcome>>
}

/** `performed`: the operations of the store that took effect. `hits`: the calls that failed. */
export type Met = { performed: Performed[]; hits: string[] }

/** What a kind of operations has in common. */
export type Judge<Outcome> = {
  isSuccess: (outcome: Outcome, operation: Operation<Outcome>) => boolean
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

/** How many cases there were, and what became of them. */
type Tally = { cases: number; succeeded: number; undone: number; doneAllTheSame: number }

const NO_CASES: Tally = { cases: 0, succeeded: 0, undone: 0, doneAllTheSame: 0 }

async function proveOperation<Outcome>(
  operation: Operation<Outcome>,
  number: number,
  { faults, judge, unit, engine, kinds = kindsOf(unit, engine) }: Proof<Outcome>,
): Promise<Tally> {
  const tally = { ...NO_CASES }
  let calls = MOST_CALLS
  const steps = { file: 1, operation: ENGINES.length, statement: ENGINES.length * kinds.length }
  const step = IS_FULL ? 1 : steps[unit]
  for (const [index, kind] of kinds.entries()) {
    const turn = index * ENGINES.length + ENGINES.indexOf(engine) + number
    const canLast = IS_FULL || (kind === 'error' && unit !== 'statement')
    for (const isLasting of canLast ? [false, true] : [false]) {
      for (let at = 1 + (turn % step); at <= calls; at += step) {
        const fault = { at, kind, isLasting }
        const prepared = await operation.prepare()
        const { value, isReached, ...met } = await faults.during(fault, unit, prepared.run)
        const effect = await judgeOutcome(
          operation,
          prepared,
          value,
          judge,
          isReached && fault,
          met,
        )
        const problems = [...effect.problems, ...(await judge.findProblems(prepared, met))]
        const what = isReached ? `${unit} ${at} ${describe(fault)}` : 'without a fault'
        assert.deepEqual(problems, [], `${operation.title}: ${what}`)
        // Until it meets the fault, every run makes the same calls.
        if (!isReached) calls = at - 1
        else {
          tally.cases++
          tally[effect.counted]++
        }
      }
    }
  }
  assert.ok(calls < MOST_CALLS, `${operation.title} does not end`)
  return tally
}

function kindsOf(unit: FaultUnit, engine: EngineName): FaultKind[] {
  // A statement of SQLite and an operation on a file have ended when they return: neither can take effect later.
  const canBeLate =
    unit === 'operation' || (unit === 'statement' && engine === 'postgres' && IS_FULL)
  return canBeLate ? ['error', 'timeout', 'lost'] : ['error', 'lost']
}

function describe({ kind, isLasting }: Fault): string {
  return `${kind}${isLasting ? ' from then on' : ''}`
}

async function judgeOutcome<Outcome>(
  operation: Operation<Outcome>,
  { isDone, countEvents }: Case<Outcome>,
  outcome: Outcome,
  judge: Judge<Outcome>,
  fault: Fault | false,
  { hits }: Met,
) {
  const problems: string[] = []
  const isSuccess = judge.isSuccess(outcome, operation)
  const isStored = isDone ? await isDone(outcome) : isSuccess
  if (isSuccess && !isStored) problems.push('success, but nothing is stored')
  if (!isSuccess) {
    const wrong = judge.findWrongFailure(outcome)
    if (wrong) problems.push(wrong)
    if (!fault) problems.push(`it failed without a fault: ${JSON.stringify(outcome)}`)
    // A file that cannot be removed either, after another fault, stays.
    const mayStay = operation.isInParts || (hits.length > 1 && hits.includes('unlink'))
    if (isStored && fault && fault.kind === 'error' && !mayStay) {
      problems.push('it failed, but its effect is stored')
    }
  }
  const events = await countEvents?.()
  if (events !== undefined && events !== Number(isStored)) {
    problems.push(`${events} events in the audit, but ${isStored ? 'it is' : 'nothing is'} stored`)
  }
  const counted = isSuccess ? 'succeeded' : isStored ? 'doneAllTheSame' : 'undone'
  return { problems, counted } as const
}

/** Proves each operation in a test of its own and prints the number of cases. */
export async function proveAll<Outcome>(
  context: TestContext,
  title: string,
  operations: Operation<Outcome>[],
  proof: Proof<Outcome>,
): Promise<void> {
  const sum = { ...NO_CASES }
  for (const [number, operation] of operations.entries()) {
    await context.test(operation.title, async () => {
      const tally = await proveOperation(operation, number, proof)
      for (const name of Object.keys(sum) as (keyof Tally)[]) sum[name] += tally[name]
    })
    await proof.clear?.()
  }
  const { cases, succeeded, undone, doneAllTheSame } = sum
  assert.ok(cases >= operations.length / 2, 'some make no call that could fail')
  const line = `${title}: ${operations.length} operations, ${cases} cases, of which ${undone} failed without effect, ${doneAllTheSame} took effect although they failed, and ${succeeded} succeeded all the same.`
  context.diagnostic(line)
}
