// The device of a login in SQLite, in the transaction that opens the session.
import { sql } from 'kysely'
import type { UsedDevice } from '../../domain/attempt.ts'
import { surplusDevices } from '../sql/device.ts'
import { prepare, prepareInsert, type RunNow } from '../sql/prepared.ts'
import { formatTime } from '../sql/schema.ts'

const insertDevice = prepareInsert('devices')

/** Stores a new device, or notes the use of a known one, unless that was revoked meanwhile. */
export function rememberDevice(
  run: RunNow,
  device: UsedDevice,
  userId: string,
  userAgent: string,
  now: Date,
): void {
  const used = {
    last_used_at: formatTime(now),
    expires_at: formatTime(device.expiresAt),
    user_agent: userAgent,
  }
  if (device.kind === 'known') {
    run(noteUse, { id: device.id, ...used })
    return
  }
  run(dropDevices, { userId })
  run(insertDevice, {
    id: device.id,
    user_id: userId,
    token: device.digest,
    created_at: formatTime(now),
    ...used,
  })
}

const dropDevices = prepare<{ userId: string }>((db, { userId }) =>
  sql`delete from devices where id in (${surplusDevices(userId)})`.compile(db),
)

type DeviceUse = { id: string; last_used_at: string; expires_at: string; user_agent: string }

const noteUse = prepare<DeviceUse>((db, { id, last_used_at, expires_at, user_agent }) =>
  db
    .updateTable('devices')
    .set({ last_used_at, expires_at, user_agent })
    .where('id', '=', id)
    .compile(),
)
