// Checks that the database answers and accepts a write, its clock, and that the stored users can log in.

import { MAX_EVALUATED_COST } from '../../bcrypt/hash-text.ts'
import type { Config } from '../../config/config.ts'
import type { DatabaseConfig } from '../../config/database.ts'
import type { Store } from '../../domain/store.ts'
import { isOpenToOthers } from '../../files.ts'
import { isReachable } from '../../login/credentials.ts'
import { messageOf } from '../failures.ts'
import { withAnyStore } from '../with-store.ts'
import { type Finding, ok, problem, warning } from './finding.ts'

const CLOCK_TOLERANCE_MS = 5_000
/** How many of the emails that no login finds are shown. */
const EXAMPLES = 3

export async function checkDatabase(config: Config, clock: () => Date): Promise<Finding[]> {
  const { database } = config
  try {
    return await withAnyStore(config, async ({ store, where }) => {
      const pending = (await store.listMigrations()).map(({ appliedAt }) => appliedAt === null)
      if (pending.some(Boolean)) {
        return [
          pending.every(Boolean)
            ? warning('database', `${where} is not set up yet: the service sets it up at its start`)
            : warning(
                'database',
                `${where} is not up to date: the service updates it at its start`,
              ),
        ]
      }
      await store.checkWritable(clock())
      return [
        database.engine === 'sqlite' && (await isOpenToOthers(database.file))
          ? warning('database', `others can read ${database.file}: chmod 600 it`)
          : ok('database', where),
        ...(await checkRole(database, store)),
        await checkDatabaseClock(store, clock),
        await checkHashes(store, config.bcryptCost),
        await checkEmails(store),
      ]
    })
  } catch (error) {
    return [problem('database', messageOf(error))]
  }
}

/** Behind a pooler the service cannot set limits and plans for its connections: its role must have them. */
async function checkRole(database: DatabaseConfig, store: Store): Promise<Finding[]> {
  if (database.engine !== 'postgres' || !database.hasPooler) return []
  const missing = await store.listMissingSettings()
  if (missing.length === 0) return [ok('role', 'has the time limits and plan settings')]
  return [
    warning(
      'role',
      `lacks settings that the pooler keeps the service from sending: run "${missing.join('; ')}", then let the pooler open new connections (PgBouncer: RECONNECT)`,
    ),
  ]
}

/** Compares with the time of asking and the time of the answer, because a busy machine may answer late. */
async function checkDatabaseClock(store: Store, clock: () => Date): Promise<Finding> {
  const askedAt = clock().getTime()
  const databaseNow = (await store.readClock())?.getTime() ?? askedAt
  const apartMs = Math.max(askedAt - databaseNow, databaseNow - clock().getTime())
  if (apartMs <= CLOCK_TOLERANCE_MS) return ok('database clock', 'agrees with this machine')
  const seconds = Math.round(apartMs / 1000)
  return warning('database clock', `${seconds} s apart from this machine: synchronise both`)
}

async function checkHashes(store: Store, bcryptCost: number): Promise<Finding> {
  const costs = await store.countHashCosts()
  const usersWhere = (isCounted: (cost: number | null) => boolean) =>
    costs.reduce((sum, { cost, users }) => sum + (isCounted(cost) ? users : 0), 0)
  const unusable = usersWhere(cost => cost === null || cost > MAX_EVALUATED_COST)
  const slow = usersWhere(cost => cost !== null && cost > bcryptCost)
  const all = usersWhere(() => true)
  if (unusable > 0) {
    return warning('hashes', `${unusable} of ${all} cannot be verified: set new passwords`)
  }
  if (slow > 0) {
    return warning(
      'hashes',
      `${slow} of ${all} are above BCRYPT_COST ${bcryptCost}: these logins take longer than others`,
    )
  }
  return ok('hashes', `${all} stored, none above BCRYPT_COST ${bcryptCost}`)
}

/** A user inserted by SQL may have an email in a form that no login looks up, and can then never log in. */
async function checkEmails(store: Store): Promise<Finding> {
  let all = 0
  let unreachable = 0
  const examples: string[] = []
  for await (const page of store.emailPages()) {
    all += page.length
    for (const email of page) {
      if (isReachable(email)) continue
      unreachable++
      if (examples.length < EXAMPLES) examples.push(JSON.stringify(email))
    }
  }
  if (unreachable === 0)
    return ok('emails', `${all} stored, each in the form that a login looks up`)
  const rest = unreachable > examples.length ? ' and others' : ''
  return warning(
    'emails',
    `${unreachable} of ${all} can never log in, because their email is not in the form that a login looks up (trimmed, a-z instead of A-Z, no control characters): ${examples.join(', ')}${rest}; correct them in the database`,
  )
}
