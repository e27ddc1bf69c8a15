// Which files are mutated, and which tests are expected to notice.
import { existsSync } from 'node:fs'
import type { EngineName } from '../../src/storage/sql/engine.ts'

/** Runs in one process. */
export type Stage = { engine: EngineName; files: string[] }

/** The most important ones for security first. */
export const MUTATED = [
  ...['login', 'throttle', 'admission', 'hash-queue', 'decision'].map(it => `src/login/${it}.ts`),
  ...['refresh', 'refresh-caller', 'refresh-token'].map(it => `src/session/${it}.ts`),
  'src/storage/*/{reserve,settle,use-token}.ts',
  'src/storage/sql/throttle*.ts',
  'src/login/*.ts',
  'src/session/*.ts',
]

/** These are tested with a simulated hasher; what they decide hardly shows through the front door. */
const QUEUE_FILES = /hash-queue|capacity|evictions|fair-order|forecast|recent-hashes|idle-jobs/
const QUEUE = ['src/login/hash-queue.test.ts', 'test/admission.test.ts', 'test/fairness.test.ts']
const LOGIN = ['test/login.test.ts', 'test/throttle.test.ts', 'test/change-password.test.ts']
const SESSION = [
  'test/refresh.test.ts',
  'test/refresh-callers.test.ts',
  'test/session-access.test.ts',
]
const THROTTLE = ['throttle', 'throttle-model'].map(it => `test/storage/${it}.contract.ts`)
const CONTRACTS = ['store', 'sessions', 'last-login'].map(it => `test/storage/${it}.contract.ts`)

/** Further tests of a topic, by what the name of the file has in it. */
const TOPICS: [RegExp, string[]][] = [
  [/device/, ['test/device.test.ts', 'test/device-tag.test.ts']],
  [/code/, ['test/code.test.ts']],
  [/open-session/, ['test/lifetimes.test.ts', 'test/session-limit.test.ts']],
  [/ended-feed/, ['test/ended-feed.test.ts']],
  [/refresh|use-token/, ['test/refresh-input.test.ts', 'test/refresh-races.test.ts']],
  [/(access|refresh)-token/, ['src/session/token-reason.test.ts']],
  [/access-token/, ['test/long/verified-tokens.test.ts']],
  [/own-sessions|authenticate/, ['test/session-endpoints.test.ts']],
  [/own-sessions|settle/, ['test/session-limit.test.ts']],
  [/new-hash|password|settle/, ['test/temporary-passwords.test.ts']],
  [/user-state/, ['test/storage/list-users.contract.ts']],
  [/sql\/throttle/, ['test/storage/audit.contract.ts', 'test/throttle-list.test.ts']],
  [/sql\/throttle/, ['test/explain.test.ts']],
  [/reserve|sql\/throttle/, ['test/plans.test.ts']],
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
  if (QUEUE_FILES.test(file)) return [own, QUEUE]
  const isLogin = file.includes('/login/')
  const useCase = isLogin ? 'src/login/login.test.ts' : 'src/session/refresh.test.ts'
  const units = [...new Set([...own, useCase])].map(unit => [unit])
  return [...units, topics, isLogin ? LOGIN : SESSION]
}
