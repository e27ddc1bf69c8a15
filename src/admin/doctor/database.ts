// Whether the database answers, takes a write, and holds users who can log in.
import type { Config } from '../../config/config.ts'
import type { Store } from '../../domain/store.ts'
import { isOpenToOthers } from '../../files.ts'
import { isReachable } from '../../login/credentials.ts'
import { MAX_EVALUATED_COST } from '../../login/passwords.ts'
import { messageOf } from '../failures.ts'
import { withAnyStore } from '../with-store.ts'
import { type Finding, ok, problem, warning } from './finding.ts'

const CLOCK_TOLERANCE_MS = 5_000
/** How many of the emails that no login reaches are shown. */
const EXAMPLES = 3

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
        await checkEmails(store),
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

/** A user put in by SQL may have an email that no login looks up, and can never log in. */
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
    `${unreachable} of ${all} can never log in, because their email is not as a login looks it up (trimmed, a-z, no control characters): ${examples.join(', ')}${rest}; correct them in the database`,
  )
}
