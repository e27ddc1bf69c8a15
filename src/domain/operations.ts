// How a layer wraps every operation of the store: the SQLite thread, the metrics, the admin API.
import type { StoreParts } from './store.ts'

type PartName = keyof StoreParts

/** Such as `users.set`. */
export type OperationName = {
  [Part in PartName]: `${Part}.${keyof StoreParts[Part] & string}`
}[PartName]

/** An operation, for a layer that only passes its values on. */
type AnyOperation = (...values: unknown[]) => Promise<unknown>

/** These take as many transactions as there are rows: others run in between, and no time limit would fit. */
export const IN_BATCHES: OperationName[] = [
  'users.delete',
  'sessions.endEvery',
  'maintenance.purge',
  'migrations.apply',
]

const PARTS: PartName[] = [
  ...(['attempts', 'users', 'secondFactors', 'sessions', 'refreshTokens', 'codes'] as const),
  ...(['devices', 'throttle', 'adminTokens', 'audit', 'imports'] as const),
  ...(['maintenance', 'migrations'] as const),
]

export function operationOf(parts: StoreParts, name: OperationName): AnyOperation {
  const [part = '', method = ''] = name.split('.')
  return Reflect.get(Reflect.get(parts, part), method)
}

/** A store whose operations are all made by one function. */
export function makeParts(make: (name: OperationName) => AnyOperation): StoreParts {
  const parts = PARTS.map(part => [part, methodsOf(part, make)])
  return Object.fromEntries(parts)
}

/** The same parts, with something done around each operation. A store is more than its parts: `close` stays as it is. */
export function wrapMethods<Parts extends Partial<StoreParts>>(
  parts: Parts,
  wrap: (name: OperationName, operation: AnyOperation) => AnyOperation,
): Parts {
  const wrapped = Object.entries(parts).map(([part, methods]) =>
    typeof methods === 'function'
      ? [part, methods]
      : [part, methodsOf(part, name => wrap(name, operationOf(parts as StoreParts, name)))],
  )
  return Object.fromEntries(wrapped)
}

/** Each operation is made when it is used for the first time. */
function methodsOf(part: string, make: (name: OperationName) => AnyOperation): object {
  return new Proxy<Record<string, AnyOperation>>(Object.create(null), {
    get(made, method: string) {
      made[method] ??= make(`${part}.${method}` as OperationName)
      return made[method]
    },
  })
}
