// The names of all operations, and how a layer wraps each of them: the SQLite thread, the metrics, the admin API.
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

/** Every method, for a layer that has no store to ask for them. */
const METHODS: { [Part in PartName]: Record<keyof StoreParts[Part], true> } = {
  attempts: { reserve: true, release: true, fail: true, pass: true, succeed: true },
  users: {
    findByEmail: true,
    findById: true,
    list: true,
    count: true,
    listEmails: true,
    countHashCosts: true,
    upgradePasswordHash: true,
    insert: true,
    set: true,
    activate: true,
    deactivate: true,
    lock: true,
    unlock: true,
    setPassword: true,
    delete: true,
  },
  sessions: {
    findLive: true,
    findLiveByCookie: true,
    touchCookie: true,
    listLive: true,
    listStored: true,
    countLive: true,
    findLastLogin: true,
    readLastLogin: true,
    end: true,
    endOf: true,
    endOthers: true,
    endByAdministrator: true,
    endAll: true,
    hasMoreEnded: true,
    listEnded: true,
    endEvery: true,
  },
  refreshTokens: { find: true, use: true },
  codes: { insert: true, find: true, redeem: true },
  devices: { find: true, list: true, revoke: true, readKey: true },
  throttle: { read: true, readOfEmail: true, list: true, clear: true, clearOfEmail: true },
  audit: { list: true, listOfUser: true, record: true },
  imports: { run: true },
  maintenance: {
    purge: true,
    vacuum: true,
    checkWritable: true,
    readClock: true,
    countConnections: true,
    listMissingSettings: true,
  },
  migrations: { apply: true, list: true },
}

export function operationOf(parts: StoreParts, name: OperationName): AnyOperation {
  const [part = '', method = ''] = name.split('.')
  return Reflect.get(Reflect.get(parts, part), method)
}

/** A store whose operations are all made by one function. */
export function makeParts(make: (name: OperationName) => AnyOperation): StoreParts {
  return mapMethods(METHODS, make) as StoreParts
}

/** The same parts, with something done around each operation. Each is wrapped once, not at every call. */
export function wrapMethods<Parts extends Partial<StoreParts>>(
  parts: Parts,
  wrap: (name: OperationName, operation: AnyOperation) => AnyOperation,
): Parts {
  return mapMethods(parts, wrap) as Parts
}

/** The types of the operations are lost here, and given back by the two functions above. */
function mapMethods(
  parts: object,
  replace: (name: OperationName, method: AnyOperation) => AnyOperation,
): object {
  const replaced = Object.entries(parts).map(([part, methods]) => {
    // A store is more than its parts: `close` stays as it is.
    if (typeof methods === 'function') return [part, methods]
    const entries = Object.entries<AnyOperation>(methods).map(([name, method]) => [
      name,
      replace(`${part}.${name}` as OperationName, method),
    ])
    return [part, Object.fromEntries(entries)]
  })
  return Object.fromEntries(replaced)
}
