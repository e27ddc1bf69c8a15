// Known devices: browsers that have logged in to an account before.
import { type Selectable, sql } from 'kysely'
import type { Device, DeviceStore } from '../../domain/device.ts'
import type { Engine } from './engine.ts'
import { formatTime, parseTime, type Schema } from './schema.ts'

/** Most devices of one user. A browser that keeps no cookies gets a new device with each login. */
const MAX_DEVICES = 100

/** The least recently used devices that a new one makes too many; at most 100 at a time. */
export function devicesOverLimit(userId: string) {
  return sql`select id from devices where user_id = ${userId}
    order by last_used_at desc, id limit 100 offset ${sql.lit(MAX_DEVICES - 1)}`
}

export function createDevices(engine: Engine): DeviceStore {
  const { db } = engine
  const knownAt = (now: Date) =>
    db.selectFrom('devices').selectAll('devices').where('expires_at', '>', formatTime(now))

  return {
    async readKey() {
      const row = await engine.retrying(() =>
        db.selectFrom('service').select('device_key').executeTakeFirst(),
      )
      if (!row) throw new Error('the table "service" has lost its row: restore a backup')
      return row.device_key
    },

    async find(digest, now) {
      const row = await engine.retrying(() =>
        knownAt(now)
          .innerJoin('users', 'users.id', 'user_id')
          .select('email')
          .where('token', '=', digest)
          .executeTakeFirst(),
      )
      return row ? { ...toDevice(row), email: row.email } : null
    },

    async list(userId, now) {
      const rows = await engine.retrying(() =>
        knownAt(now).where('user_id', '=', userId).orderBy('created_at').orderBy('id').execute(),
      )
      return rows.map(toDevice)
    },
  }
}

function toDevice(row: Selectable<Schema['devices']>): Device {
  return {
    id: row.id,
    userId: row.user_id,
    createdAt: parseTime(row.created_at),
    lastUsedAt: parseTime(row.last_used_at),
    expiresAt: parseTime(row.expires_at),
    userAgent: row.user_agent,
  }
}
