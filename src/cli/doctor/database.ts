// Checks that the database answers and accepts a write, its clock, that the stored users can log in, and the admin tokens.

import { ALL_TOKENS, checkTokens } from '../../admin/check-tokens.ts'
import { MAX_EVALUATED_COST } from '../../bcrypt/hash-text.ts'
import type { Config } from '../../config/config.ts'
import type { UserStore } from '../../domain/user.ts'
import { isReachable } from '../../login/credentials.ts'
import {
  describeOffset,
  NOT_READY_ABOVE_MS,
  offsetOf,
  readDatabaseClock,
  WARN_ABOVE_MS,
} from '../../service/cluster-clock.ts'
import { checkStorage } from '../../storage/check-storage.ts'
import { messageOf } from '../../system/files.ts'
import { type Finding, ok, problem, warning } from '../../system/finding.ts'
import { withAnyStore } from '../with-store.ts'

/** How many of the emails that no login finds are shown. */
const EXAMPLES = 3

export async function checkDatabase(config: Config, clock: () => Date): Promise<Finding[]> {
  try {
    return await withAnyStore(config, async ({ store, where }) => {
      const pending = (await store.migrations.list()).map(({ appliedAt }) => appliedAt === null)
      if (pending.some(Boolean)) {
        const state = pending.every(Boolean)
          ? 'is not set up yet: the service sets it up at its start'
          : 'is not up to date: the service updates it at its start'
        return [warning('database', `${where} ${state}`)]
      }
      const offsetMs = offsetOf(await readDatabaseClock(store.maintenance))
      const now = new Date(clock().getTime() + offsetMs)
      await store.maintenance.checkWritable(now)
      return [
        await checkStorage(config.database),
        checkDatabaseClock(offsetMs),
        await checkHashes(store.users, config.bcryptCost),
        await checkEmails(store.users),
        ...checkTokens(config, await store.adminTokens.list(ALL_TOKENS), now),
      ]
    })
  } catch (error) {
    return [problem('database', messageOf(error))]
  }
}

function checkDatabaseClock(offsetMs: number): Finding {
  const apartMs = Math.abs(offsetMs)
  if (apartMs <= WARN_ABOVE_MS) return ok('database clock', 'agrees with this machine')
  return apartMs <= NOT_READY_ABOVE_MS
    ? warning('database clock', describeOffset(offsetMs))
    : problem('database clock', `${describeOffset(offsetMs)}; the service is not ready until then`)
}

async function checkHashes(users: UserStore, bcryptCost: number): Promise<Finding> {
  const costs = await users.countHashCosts()
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
async function checkEmails(users: UserStore): Promise<Finding> {
  let all = 0
  let unreachable = 0
  const examples: string[] = []
  for (let after: string | undefined = ''; after !== undefined; ) {
    const emails: string[] = await users.listEmails(after)
    after = emails.at(-1)
    all += emails.length
    for (const email of emails) {
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
