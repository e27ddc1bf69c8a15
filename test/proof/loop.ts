// The loop over all faults of one operation: the k-th call fails, for every k until the fault is no longer reached.
import assert from 'node:assert/strict'
import type { Fault, FaultKind, Faults, Performed } from './faults.ts'

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

/** What a kind of operations has in common. */
export type Judge<Outcome> = {
  isSuccess: (outcome: Outcome, operation: Operation<Outcome>) => boolean
  /** Says what is wrong with the outcome of an operation that failed; null if nothing is. */
  findWrongFailure: (outcome: Outcome) => string | null
  /** Says what is wrong after a case: with the tables, and with the next requests. */
  findProblems: (prepared: Case<Outcome>, performed: Performed[]) => Promise<string[]>
}

/** More calls than any operation makes. */
const MOST_CALLS = 200
const ONCE_AND_LASTING = [false, true]

/** How many cases there were, and what became of them. */
export type Tally = { cases: number; succeeded: number; undone: number; doneAllTheSame: number }

export const NO_CASES: Tally = { cases: 0, succeeded: 0, undone: 0, doneAllTheSame: 0 }

export async function proveOperation<Outcome>(
  faults: Faults,
  operation: Operation<Outcome>,
  judge: Judge<Outcome>,
  unit: 'operation' | 'statement',
): Promise<Tally> {
  const tally = { ...NO_CASES }
  // A driver that gives up closes its connection, so that the statement has no late effect of its own.
  const kinds: FaultKind[] = unit === 'operation' ? ['error', 'timeout', 'lost'] : ['error', 'lost']
  let calls = MOST_CALLS
  for (const kind of kinds) {
    for (const isLasting of ONCE_AND_LASTING) {
      for (let at = 1; at <= calls; at++) {
        const fault = { at, kind, isLasting }
        const prepared = await operation.prepare()
        const { value, isReached, performed } = await faults.during(fault, unit, prepared.run)
        const effect = await judgeOutcome(operation, prepared, value, judge, fault, isReached)
        const problems = [
          ...effect.problems,
          ...(await judge.findProblems(prepared, unit === 'operation' ? performed : [])),
        ]
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

function describe({ kind, isLasting }: Fault): string {
  return `${kind}${isLasting ? ' from then on' : ''}`
}

async function judgeOutcome<Outcome>(
  operation: Operation<Outcome>,
  { isDone, countEvents }: Case<Outcome>,
  outcome: Outcome,
  judge: Judge<Outcome>,
  { kind }: Fault,
  isReached: boolean,
) {
  const problems: string[] = []
  const isSuccess = judge.isSuccess(outcome, operation)
  const isStored = isDone ? await isDone(outcome) : isSuccess
  if (isSuccess && !isStored) problems.push('success, but nothing is stored')
  if (!isSuccess) {
    const wrong = judge.findWrongFailure(outcome)
    if (wrong) problems.push(wrong)
    if (!isReached) problems.push(`it failed without a fault: ${JSON.stringify(outcome)}`)
    if (isStored && kind === 'error' && !operation.isInParts) {
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

export function addTally(sum: Tally, tally: Tally): void {
  for (const [name, count] of Object.entries(tally) as [keyof Tally, number][]) sum[name] += count
}
