// Which files are mutated, and which tests are expected to notice.
import { existsSync } from 'node:fs'
import type { EngineName } from '../../src/storage/sql/engine.ts'

/** Runs in one process. */
export type Stage = { engine: EngineName; files: string[] }

/** The most important ones for security first. */
export const MUTATED = [
  ...['login', 'throttle', 'admission', 'decision'].map(it => `src/login/${it}.ts`),
  'src/hashing/hash-queue.ts',
  ...['refresh', 'refresh-caller', 'refresh-token'].map(it => `src/session/${it}.ts`),
  'src/domain/throttle-rules.ts',
  'src/storage/*/{transaction,use-token}.ts',
  'src/storage/sql/{attempts,open-session,throttle*}.ts',
  'src/login/*.ts',
  'src/hashing/*.ts',
  'src/session/*.ts',
]

/** These are tested with a simulated hasher; what they decide hardly shows through the front door. */
const QUEUE_FILES = /src\/hashing\//
const QUEUE = ['src/hashing/hash-queue.test.ts', 'test/hashing/hash-queue.test.ts']
const LOGIN = [
  'test/login/login.test.ts',
  'test/throttle/throttle.test.ts',
  'test/login/change-password.test.ts',
]
const SESSION = [
  'test/session/refresh.test.ts',
  'test/session/refresh-callers.test.ts',
  'test/session/endpoints.test.ts',
]
const THROTTLE = ['throttle', 'throttle-model'].map(it => `test/storage/${it}.test.ts`)
const CONTRACTS = ['test/storage/store.test.ts']

/** Further tests of a topic, by what the name of the file has in it. */
const TOPICS: [RegExp, string[]][] = [
  [/login\/login/, ['test/http/logs.test.ts']],
  [/device|scopes/, ['test/login/device.test.ts']],
  [/code/, ['test/session/code.test.ts']],
  [/open-session/, ['test/session/lifetimes.test.ts', 'test/session/limit.test.ts']],
  [/ended-feed/, ['test/session/ended-feed.test.ts']],
  [/refresh|use-token/, ['test/session/refresh-races.test.ts', 'test/session/lifetimes.test.ts']],
  [/(access|refresh)-token/, ['src/session/tokens.test.ts', 'test/http/refusals.test.ts']],
  [/access-token/, ['test/session/verified-tokens.slow.test.ts']],
  [/own-sessions|attempts/, ['test/session/limit.test.ts']],
  [/user-state/, ['test/storage/list-users.test.ts']],
  [/sql\/throttle/, ['test/storage/audit.test.ts', 'test/throttle/list.test.ts']],
  [/sql\/throttle|scopes/, ['test/throttle/explain.test.ts']],
  [/attempts|sql\/throttle/, ['test/storage/plans.test.ts', 'test/storage/locks.test.ts']],
]

/** The cheapest first: the first failure ends the run of a mutant. */
export function stagesOf(file: string): Stage[] {
  const own = [file.replace('.ts', '.test.ts')].filter(name => existsSync(name))
  const topics = TOPICS.flatMap(([name, files]) => (name.test(file) ? files : []))
  const engines: EngineName[] = /storage\/sql\//.test(file)
    ? ['sqlite', 'postgres']
    : [file.includes('/postgres/') ? 'postgres' : 'sqlite']
  return listsOf(file, own, topics)
    .filter(files => files.length > 0)
    .flatMap(files => engines.map(engine => ({ engine, files })))
}

function listsOf(file: string, own: string[], topics: string[]): string[][] {
  if (file.includes('/storage/')) {
    return [
      own,
      THROTTLE,
      CONTRACTS,
      [...topics, ...(file.includes('use-token') ? SESSION : LOGIN)],
    ]
  }
  if (file.includes('/domain/throttle')) return [own, THROTTLE]
  if (QUEUE_FILES.test(file)) return [own, QUEUE]
  const isLogin = file.includes('/login/')
  const useCase = isLogin ? 'src/login/login.test.ts' : 'src/session/refresh.test.ts'
  const units = [...new Set([...own, useCase])].map(unit => [unit])
  return [...units, topics, isLogin ? LOGIN : SESSION]
}
