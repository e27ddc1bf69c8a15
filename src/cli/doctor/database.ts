// Checks that the database answers and accepts a write, its connections and clock, that the stored users can log in, the
// admin tokens, and that the key file has the keys of the last rotation and of the second factors.

import { ALL_TOKENS, checkTokens } from '../../admin/check-tokens.ts'
import { count } from '../../admin/layout.ts'
import { MAX_EVALUATED_COST } from '../../bcrypt/hash-text.ts'
import type { Config } from '../../config/config.ts'
import type { DatabaseConfig } from '../../config/database.ts'
import type { AuditStore } from '../../domain/audit.ts'
import type { MaintenanceStore } from '../../domain/maintenance.ts'
import type { SecondFactorStore } from '../../domain/second-factor.ts'
import type { UserStore } from '../../domain/user.ts'
import { loadKeySet } from '../../keys/key-file.ts'
import { allKeysOf, createKeys } from '../../keys/key-set.ts'
import { isReachable } from '../../login/credentials.ts'
import {
  describeOffset,
  NOT_READY_ABOVE_MS,
  offsetOf,
  readDatabaseClock,
  WARN_ABOVE_MS,
} from '../../service/cluster-clock.ts'
import { checkStorage } from '../../storage/open-store.ts'
import { messageOf } from '../../system/files.ts'
import { type Finding, ok, problem, warning } from '../../system/finding.ts'
import { withAnyStore } from '../with-store.ts'

/** How many of the emails that no login finds are shown. */
const EXAMPLES = 3
/** So many of the last audit events are searched for a rotation of keys. */
const EVENTS = 10_000

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
        ...(await checkPool(config.database, store.maintenance)),
        checkDatabaseClock(offsetMs),
        await checkHashes(store.users, config.bcryptCost),
        await checkEmails(store.users),
        ...(await checkFactors(config, store.secondFactors)),
        ...(await checkPasskeys(config, store.secondFactors)),
        ...checkTokens(config, await store.adminTokens.list(ALL_TOKENS), now),
        ...(await checkRotation(config, store.audit)),
      ]
    })
  } catch (error) {
    return [problem('database', messageOf(error))]
  }
}

async function checkPool(
  database: DatabaseConfig,
  maintenance: MaintenanceStore,
): Promise<Finding[]> {
  const most = await maintenance.readConnectionLimit()
  if (database.engine === 'sqlite' || most === null || database.poolSize <= most) return []
  const detail = `DATABASE_POOL_SIZE is ${database.poolSize}, but PostgreSQL allows this role ${most} connections`
  const advice = 'lower it, or raise max_connections or the limit of the role'
  return [warning('database pool', `${detail}: ${advice}`)]
}

/** A machine may lack the file of a rotation elsewhere, or have one of an older backup. Looks at the last events only. */
async function checkRotation({ signingKeysFile }: Config, audit: AuditStore): Promise<Finding[]> {
  const keySet = await loadKeySet(signingKeysFile).catch(() => null)
  if (!keySet) return []
  const known = allKeysOf(keySet).map(({ keyId }) => keyId)
  const { events } = await audit.list(null, { since: null, beforeId: null, limit: EVENTS })
  const added = events.filter(({ action }) => action === 'key.added')
  const last = added.filter(({ at }) => at.getTime() === added[0]?.at.getTime())
  const missing = last.map(({ target }) => target).filter(keyId => !known.includes(keyId))
  if (missing.length === 0) return []
  const detail = `${signingKeysFile} lacks the key ${missing.join(' and ')}, which the audit has`
  const advice = 'copy the file from the machine of the last "keys rotate"'
  return [warning('keys', `${detail}: ${advice}`)]
}

/** A file of an older backup may lack the key that the secrets of second factors need. */
async function checkFactors(
  { signingKeysFile }: Config,
  secondFactors: SecondFactorStore,
): Promise<Finding[]> {
  const counts = await secondFactors.countByKey()
  const keySet = await loadKeySet(signingKeysFile).catch(() => null)
  // The check of the keys tells why the file cannot be used.
  if (!keySet || counts.length === 0) return []
  const { findEncryptionKey } = createKeys(keySet)
  const missing = counts.filter(({ keyId }) => findEncryptionKey(keyId) === null)
  const sum = (some: typeof counts) => some.reduce((users, it) => users + it.users, 0)
  const all = sum(counts)
  if (missing.length === 0) {
    return [ok('second factors', `${all} stored, each with its key in the file`)]
  }
  const lacking = missing.map(({ keyId, users }) => `${keyId} (${count(users, 'user', 'users')})`)
  const detail = `${sum(missing)} of ${all} cannot be verified: ${signingKeysFile} lacks the key ${lacking.join(' and ')}`
  const advice =
    'restore the file of a backup; without it, these users need a reset ("users reset-second-factor")'
  return [problem('second factors', `${detail}: ${advice}`)]
}

/** Browsers use a passkey only for the domain that it was made for, so that a new host name makes it useless. */
async function checkPasskeys(
  { passkeyRpId }: Config,
  secondFactors: SecondFactorStore,
): Promise<Finding[]> {
  const others = (await secondFactors.countByDomain()).filter(({ rpId }) => rpId !== passkeyRpId)
  if (others.length === 0) return []
  const bound = others.map(({ rpId, passkeys }) => `${passkeys} to ${rpId}`).join(', ')
  const now = passkeyRpId ?? 'none, because its host is an IP address'
  const detail = `some are bound to another domain than that of this service (${now}): ${bound}`
  const advice = 'set PASSKEY_RP_ID to it if JWT_ISSUER allows, or let their users add new ones'
  return [warning('passkeys', `${detail}; ${advice}`)]
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
    const detail = `${slow} of ${all} are above BCRYPT_COST ${bcryptCost}`
    return warning('hashes', `${detail}: these logins take longer than others`)
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
