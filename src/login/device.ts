// Device cookies: a browser that has logged in to an account before keeps a budget of its own, so
// that nobody's guessing can lock its owner out. It is never a credential.
import { randomUUID } from 'node:crypto'
import { digestOf } from '../digest.ts'
import { DEVICE_SECONDS } from '../session/lifetimes.ts'
import { randomToken } from '../session/secrets.ts'
import type { Device, Store, UsedDevice } from '../storage/store.ts'

/** The device, if its cookie is genuine and belongs to this very account. */
export async function findKnownDevice(
  store: Store,
  deviceToken: string | null,
  email: string,
  now: Date,
): Promise<Device | null> {
  return deviceToken === null ? null : store.findDevice(digestOf(deviceToken), email, now)
}

/** What a success writes down: the known device was used again, or a new one is made known. */
export function deviceToRemember(
  known: Device | null,
  now: Date,
): { device: UsedDevice; newToken: string | null } {
  if (known) return { device: { kind: 'known', id: known.id }, newToken: null }
  const newToken = randomToken()
  const expiresAt = new Date(now.getTime() + DEVICE_SECONDS * 1000)
  const id = randomUUID()
  return { device: { kind: 'new', id, expiresAt, digest: digestOf(newToken) }, newToken }
}
