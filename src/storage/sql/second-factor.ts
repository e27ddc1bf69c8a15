// Second factors and recovery codes, as logins, users and administrators read them, and their reset.
import { type Selectable, sql } from 'kysely'
import type {
  Factor,
  ProofKeys,
  SecondFactorStore,
  StoredFactor,
} from '../../domain/second-factor.ts'
import { changedFacts, writeAudit } from './audit.ts'
import { endAllSessions, isOfUser } from './end-all-sessions.ts'
import { type Engine, transact } from './engine.ts'
import { lockForChange, updateTime } from './lock-for-change.ts'
import { prepare } from './prepared.ts'
import { formatTime, parseTime, parseTimeOrNull, type Schema } from './schema.ts'
import { toUser } from './user-rows.ts'

/** The id of a key is followed by a dot and these characters (`keys/encryption.ts`). */
const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
/** At least so many: an IV of 12, a secret of 20 and a tag of 16 bytes. */
const ENCRYPTED_MIN_CHARACTERS = 64

export function createSecondFactors(engine: Engine): SecondFactorStore {
  const { db } = engine
  return {
    async findProofs(userId, keys) {
      const [row] = await engine.readPrepared(findProofs, { userId, ...keys })
      if (!row) throw new Error('no row of proofs')
      return {
        hasFactor: Boolean(row.has_factor),
        totp: toStored(row, 'totp'),
        passkey: toStored(row, 'passkey'),
        recoveryCode: row.recovery_code,
      }
    },

    async list(userId) {
      const rows = await engine.readPrepared(listFactors, { userId })
      const factors = rows.map(({ id, kind, name, credential_id, created_at, last_used_at }) => ({
        ...{ id, kind, name, credentialId: credential_id },
        createdAt: parseTime(created_at),
        lastUsedAt: parseTimeOrNull(last_used_at),
      }))
      return { factors, recoveryCodesLeft: Number(rows[0]?.codes_left ?? 0) }
    },

    listRecoveryCodes: async userId => {
      const rows = await engine.retrying(() =>
        db
          .selectFrom('recovery_codes')
          .select('used_at')
          .where('user_id', '=', userId)
          .orderBy('used_at', order => order.asc().nullsLast())
          .execute(),
      )
      return rows.map(row => ({ usedAt: parseTimeOrNull(row.used_at) }))
    },

    async countUsers() {
      // PostgreSQL would sort for "count(distinct user_id)", for seconds if there are a million.
      const { users } = await engine.retrying(() =>
        db
          .selectFrom(
            db.selectFrom('second_factors').select('user_id').distinct().as('with_factor'),
          )
          .select(count => count.fn.countAll().as('users'))
          .executeTakeFirstOrThrow(),
      )
      return Number(users)
    },

    async countByKey() {
      const rest = sql`length(secret) - ${sql.lit(ENCRYPTED_MIN_CHARACTERS)}`
      // Trimming all of them would take several times as long.
      const keyId = sql<string>`case when ${rest} > 0
        then rtrim(substr(secret, 1, ${rest}), ${sql.lit(BASE64URL)}) else '' end`
      const rows = await engine.retrying(() =>
        db
          .selectFrom('second_factors')
          .select(count => [keyId.as('key_id'), count.fn.countAll().as('users')])
          .where('kind', '=', 'totp')
          .groupBy(keyId)
          .orderBy(keyId)
          .execute(),
      )
      return rows.map(row => ({ keyId: row.key_id.slice(0, -1), users: Number(row.users) }))
    },

    async countByDomain() {
      const rows = await engine.retrying(() =>
        db
          .selectFrom('second_factors')
          .select(count => ['rp_id', count.fn.countAll().as('passkeys')])
          .where('kind', '=', 'passkey')
          .groupBy('rp_id')
          .orderBy('rp_id')
          .execute(),
      )
      return rows.map(row => ({ rpId: row.rp_id ?? '', passkeys: Number(row.passkeys) }))
    },

    reset: (userId, password, change) =>
      transact(engine, async trx => {
        const found = await lockForChange(engine, trx, 'id', userId, change.seen)
        if (!found) return null
        const factors = await trx
          .deleteFrom('second_factors')
          .where('user_id', '=', userId)
          .returning('kind')
          .execute()
        if (factors.length === 0 && !password) return 0
        const codes = await trx
          .deleteFrom('recovery_codes')
          .where('user_id', '=', userId)
          .returning('used_at')
          .execute()
        if (password) await trx.deleteFrom('devices').where('user_id', '=', userId).execute()
        await endAllSessions(engine, trx, isOfUser(userId), change.at)
        const temporaryUntil = password && formatTime(password.temporaryUntil)
        const row = await trx
          .updateTable('users')
          .set({
            ...{ failed_second_steps: 0, code_offset_seconds: null },
            factors_version: sql<number>`factors_version + 1`,
            updated_at: updateTime(found, change),
          })
          .$if(password !== null, query =>
            query.set({
              ...{ password_hash: password?.hash ?? '', upgraded_from: null },
              temporary_until: temporaryUntil,
            }),
          )
          .where('id', '=', userId)
          .returningAll()
          .executeTakeFirstOrThrow()
        const changed = changedFacts(found, toUser(row))
        const kinds = factors.map(({ kind }) => kind).toSorted()
        const recoveryCodesLeft = codes.filter(({ used_at }) => used_at === null).length
        await writeAudit(trx, change, {
          action: 'second_factor.reset',
          target: found.email,
          targetId: userId,
          before: { factors: kinds.join(', ') || null, recoveryCodesLeft, ...changed?.before },
          after: { factors: null, recoveryCodesLeft: 0, ...changed?.after },
        })
        return factors.length
      }),
  }
}

type ListedRow = Pick<
  Selectable<Schema['second_factors']>,
  'id' | 'kind' | 'name' | 'credential_id' | 'created_at' | 'last_used_at'
> & { codes_left: number | string }

const listFactors = prepare<{ userId: string }, ListedRow>(
  ({ userId }) => sql`select id, kind, name, credential_id, created_at, last_used_at,
      (select count(*) from recovery_codes where user_id = ${userId} and used_at is null) as codes_left
    from second_factors where user_id = ${userId} order by created_at, id`,
)

type Kind = Factor['kind']
type ProofsRow = { has_factor: boolean | number; recovery_code: 'good' | 'used' | null } & Record<
  `${Kind}_id` | `${Kind}_secret`,
  string | null
> &
  Record<`${Kind}_used_to`, Date | string | null>

/** Always one row, and no more lookups for a user with many factors. */
const findProofs = prepare<ProofKeys & { userId: string }, ProofsRow>(
  ({ userId, recoveryDigest, credentialId, rpId }) => sql`select
      exists (select 1 from second_factors where user_id = ${userId}) as has_factor,
      totp.id as totp_id, totp.secret as totp_secret, totp.used_to as totp_used_to,
      passkey.id as passkey_id, passkey.secret as passkey_secret, passkey.used_to as passkey_used_to,
      (select case when used_at is null then 'good' else 'used' end from recovery_codes
        where user_id = ${userId} and digest = ${recoveryDigest}) as recovery_code
    from (select 1 as one) always
      left join second_factors totp on totp.user_id = ${userId} and totp.kind = 'totp'
      left join second_factors passkey on passkey.user_id = ${userId}
        and passkey.credential_id = ${credentialId} and passkey.rp_id = ${rpId}`,
)

function toStored(row: ProofsRow, kind: Kind): StoredFactor | null {
  const id = row[`${kind}_id`]
  const secret = row[`${kind}_secret`]
  return id && secret ? { id, secret, usedTo: parseTimeOrNull(row[`${kind}_used_to`]) } : null
}
