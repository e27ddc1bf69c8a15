// The tokens of the admin API.
import { type Selectable, sql } from 'kysely'
import {
  type AdminToken,
  type AdminTokenStore,
  type NewAdminToken,
  TOKEN_TOUCH_SECONDS,
} from '../../domain/admin-token.ts'
import type { AuditFacts } from '../../domain/audit.ts'
import { fingerprintOf } from '../../system/identifiers.ts'
import { writeAudit } from './audit.ts'
import { type Engine, transact, write } from './engine.ts'
import { prepare } from './prepared.ts'
import { formatTime, parseTime, parseTimeOrNull, type Schema } from './schema.ts'

export function createAdminTokens(engine: Engine): AdminTokenStore {
  const { db } = engine
  const touchMs = TOKEN_TOUCH_SECONDS * 1000

  return {
    insert: (token, change) =>
      transact(engine, async trx => {
        const { name, role, digest } = token
        const times = { created_at: formatTime(change.at), expires_at: formatTime(token.expiresAt) }
        const inserted = await trx
          .insertInto('admin_tokens')
          .values({ name, role, digest, ...times })
          .onConflict(conflict => conflict.doNothing())
          .returning('name')
          .executeTakeFirst()
        if (!inserted) return false
        const added = { action: 'token.added', target: name, targetId: null } as const
        await writeAudit(trx, change, { ...added, after: factsOf(token) })
        return true
      }),

    async find(digest) {
      const [row] = await engine.readPrepared(findByDigest, { digest })
      return row ? toToken(row) : null
    },

    async list({ after, limit }) {
      const rows = await engine.retrying(() =>
        db
          .selectFrom('admin_tokens')
          .selectAll()
          .where('name', '>', after)
          .orderBy('name')
          .limit(sql.lit(limit))
          .execute(),
      )
      return rows.map(toToken)
    },

    /** One of several parallel calls writes. A time far in the future is replaced: the clock was wrong. */
    async touch(name, now) {
      const [from, to] = [formatTime(now, -touchMs), formatTime(now, touchMs)]
      await write(engine, trx =>
        sql`update admin_tokens set last_used_at = ${formatTime(now)} where name = ${name}
          and (last_used_at is null or last_used_at <= ${from} or last_used_at >= ${to})`.execute(
          trx,
        ),
      )
    },

    revoke: (name, change) =>
      transact(engine, async trx => {
        const row = await trx
          .deleteFrom('admin_tokens')
          .where('name', '=', name)
          .returningAll()
          .executeTakeFirst()
        if (!row) return false
        const before = factsOf({ ...toToken(row), digest: row.digest })
        const revoked = { action: 'token.revoked', target: name, targetId: null } as const
        await writeAudit(trx, change, { ...revoked, before })
        return true
      }),
  }
}

type Row = Selectable<Schema['admin_tokens']>

const findByDigest = prepare<{ digest: string }, Row>(
  ({ digest }) => sql`select * from admin_tokens where digest = ${digest}`,
)

/** What the record says of a token. */
function factsOf({ role, expiresAt, digest }: NewAdminToken): AuditFacts {
  return { role, expiresAt: formatTime(expiresAt), fingerprint: fingerprintOf(digest) }
}

function toToken(row: Row): AdminToken {
  return {
    name: row.name,
    role: row.role,
    createdAt: parseTime(row.created_at),
    expiresAt: parseTime(row.expires_at),
    lastUsedAt: parseTimeOrNull(row.last_used_at),
  }
}
