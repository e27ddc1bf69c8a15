// What a step of the purge is: one transaction that removes a batch of rows of one kind.
import type { Transaction } from 'kysely'
import type { Removed } from '../../domain/maintenance.ts'
import type { Schema } from './schema.ts'

/** In the order of a step's rows, by a time or by the id of an audit event. Without an id, before all rows of `at`. */
export type Position = { at: string; id?: string }

/** `from` is the position of the last row that the step has processed; null at the start. */
export type Step = (
  trx: Transaction<Schema>,
  now: Date,
  from: Position | null,
  auditDays: number,
) => Promise<Batch>

type Batch = {
  removed: Partial<Removed>
  isDone: boolean
  last: Position | null
  /** The next purge continues here, also if this one is done. */
  isLastKept?: boolean
}
