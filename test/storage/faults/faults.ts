// Makes the k-th call of one request or command fail: an operation of the store, a statement, or one on files.
import { DatabaseSync, StatementSync } from 'node:sqlite'
import pg from 'pg'
import { type OperationName, wrapMethods } from '../../../src/domain/operations.ts'
import type { Store } from '../../../src/domain/store.ts'
import { TimeUp } from '../../../src/system/time-limit.ts'

/**
 * `error`: the call fails before it does anything. `timeout`: its caller gives up, and the call takes effect after the
 * answer, as on a server that was too slow. `lost`: the call takes effect, and its answer is lost.
 */
export type FaultKind = 'error' | 'timeout' | 'lost'

/** What is counted. */
export type FaultUnit = 'operation' | 'statement' | 'file'

export type Fault = {
  /** The number of the first call that fails, from 1 on. */
  at: number
  kind: FaultKind
  /** All further calls fail too. */
  isLasting: boolean
}

/** An operation of the store that took effect while a fault was set. */
type Performed = { name: OperationName; values: unknown[]; result: unknown }

/** `performed`: the operations of the store that took effect. `hits`: the names of the calls that failed. */
export type Met = { performed: Performed[]; hits: string[] }

/** The name of every statement that failed. */
export const STATEMENT = 'statement'

/** What SQLite reports of a disk that fails. The connection to the file is then opened again. */
const SQLITE_IOERR = 10

class InjectedFault extends Error {
  constructor() {
    super('the injected fault')
  }
}

export type Faults = ReturnType<typeof createFaults>

/** `background`: operations that the service runs by itself. They wait while a fault is set. */
export function createFaults(background: OperationName[] = []) {
  let fault: Fault | null = null
  let unit: FaultUnit = 'operation'
  let calls = 0
  let performed: Performed[] = []
  let late: (() => Promise<unknown>)[] = []
  /** Statements that take effect before their connection closes. */
  let closing: Promise<void>[] = []
  let hits: string[] = []
  let ended = Promise.resolve()

  /** The fault of the next call; null if that call works. */
  function next(counted: FaultUnit, name: string): FaultKind | null {
    if (!fault || unit !== counted) return null
    calls++
    if (calls < fault.at || (calls > fault.at && !fault.isLasting)) return null
    hits.push(name)
    return fault.kind
  }

  function wrap(store: Store): Store {
    return wrapMethods(store, (name, operation) => async (...values) => {
      if (background.includes(name)) {
        await ended
        return operation(...values)
      }
      const kind = next('operation', name)
      const perform = async () => {
        const result = await operation(...values)
        if (fault) performed.push({ name, values, result })
        return result
      }
      if (kind === null) return perform()
      if (kind === 'lost') await perform()
      if (kind === 'timeout') late.push(perform)
      throw new InjectedFault()
    })
  }

  /** Runs the action with the fault set, and counts its calls. Late calls have taken effect when it returns. */
  async function during<T>(set: Fault, counted: FaultUnit, action: () => Promise<T>) {
    const end = Promise.withResolvers<void>()
    ;[fault, unit, calls, ended] = [set, counted, 0, end.promise]
    ;[performed, late, closing, hits] = [[], [], [], []]
    try {
      const value = await action()
      await Promise.all(closing)
      const made = calls
      // The rest of the request, if there is any, works.
      unit = 'operation'
      fault = { ...set, at: Number.POSITIVE_INFINITY }
      // What a late call finds may have changed so that it fails: its caller does not wait for it.
      for (const call of late) await call().catch(() => {})
      return { value, calls: made, performed, hits }
    } finally {
      fault = null
      end.resolve()
    }
  }

  const awaitClosing = (closed: Promise<void>) => closing.push(closed)
  return { wrap, during, next, awaitClosing }
}

/** Lets the statements of both drivers, in this thread, meet the faults. Returns what undoes it. */
export function injectIntoDrivers({ next, awaitClosing }: Faults): () => void {
  const { all, run } = StatementSync.prototype
  const { exec } = DatabaseSync.prototype
  const failing = <This, Values extends unknown[], Result>(
    method: (this: This, ...values: Values) => Result,
  ) =>
    function (this: This, ...values: Values): Result {
      const kind = next('statement', STATEMENT)
      const error = Object.assign(new InjectedFault(), { errcode: SQLITE_IOERR })
      if (kind === 'error') throw error
      const result = method.apply(this, values)
      if (kind === 'lost') throw error
      return result
    }
  const { query, end } = pg.Client.prototype as Record<
    'query' | 'end',
    (...values: unknown[]) => Promise<unknown>
  >
  /** What connections still do before they close, because its caller has given up. */
  const lateOf = new WeakMap<pg.Client, () => Promise<void>>()
  function performLate(client: pg.Client, values: unknown[]): void {
    const closed = Promise.withResolvers<void>()
    const earlier = lateOf.get(client)
    awaitClosing(closed.promise)
    lateOf.set(client, async () => {
      await earlier?.()
      // What it finds may have changed so that it fails.
      await query.apply(client, values).catch(() => {})
      closed.resolve()
    })
  }
  async function queryWithFault(this: pg.Client, ...values: unknown[]) {
    const kind = next('statement', STATEMENT)
    if (kind === 'error') throw new InjectedFault()
    if (kind === 'timeout') {
      performLate(this, values)
      throw new TimeUp('timeout: the injected fault')
    }
    const result = await query.apply(this, values)
    if (kind === 'lost') throw new InjectedFault()
    return result
  }
  async function endAfterLate(this: pg.Client, ...values: unknown[]) {
    await lateOf.get(this)?.()
    lateOf.delete(this)
    return end.apply(this, values)
  }
  const undo = [
    replaceMethod(StatementSync.prototype, 'all', failing(all)),
    replaceMethod(StatementSync.prototype, 'run', failing(run)),
    replaceMethod(DatabaseSync.prototype, 'exec', failing(exec)),
    replaceMethod(pg.Client.prototype, 'query', queryWithFault),
    replaceMethod(pg.Client.prototype, 'end', endAfterLate),
  ]
  return () => {
    for (const each of undo) each()
  }
}

/** Unlike `mock.method`, keeps no call with its values and result. Returns what undoes it. */
export function replaceMethod(object: object, name: string, method: unknown): () => void {
  const replaced = Reflect.get(object, name)
  Reflect.set(object, name, method)
  return () => Reflect.set(object, name, replaced)
}
