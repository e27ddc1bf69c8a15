// Whether the database answers, takes a write and holds hashes that can be verified.
import type { Config } from '../config.ts'
import { MAX_EVALUATED_COST } from '../login/passwords.ts'
import { isOpenToOthers } from '../session/key-file.ts'
import type { Store } from '../storage/store.ts'
import { messageOf } from './failures.ts'
import { type Finding, ok, problem, warning } from './finding.ts'
import { withAnyStore } from './with-store.ts'

const CLOCK_TOLERANCE_MS = 5_000

export async function checkDatabase(config: Config, clock: () => Date): Promise<Finding[]> {
  const { database } = config
  try {
    return await withAnyStore(config, async ({ store, where }) => {
      const pending = (await store.listMigrations()).map(({ appliedAt }) => appliedAt === null)
      if (pending.some(Boolean)) {
        const state = pending.every(Boolean) ? 'not set up yet' : 'not up to date'
        return [warning('database', `${where} is ${state}: the service does it at its start`)]
      }
      await store.checkWritable(clock())
      return [
        database.engine === 'sqlite' && (await isOpenToOthers(database.file))
          ? warning('database', `others can read ${database.file}: chmod 600 it`)
          : ok('database', where),
        await checkDatabaseClock(store, clock),
        await checkHashes(store, config.bcryptCost),
      ]
    })
  } catch (error) {
    return [problem('database', messageOf(error))]
  }
}

/** Between asking and being told, which may take long on a busy machine, the clocks agree. */
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
