// Device cookies: a browser that has logged in to an account before keeps a budget of its own, so
// that nobody's guessing can lock its owner out. It is never a credential.
import { randomUUID } from 'node:crypto'
import { digestOf } from '../digest.ts'
import { DEVICE_SECONDS } from '../session/lifetimes.ts'
import type { Device, Store, UsedDevice } from '../storage/store.ts'
import type { DeviceTokens } from './device-token.ts'

type DeviceDeps = { store: Store; deviceTokens: DeviceTokens; clock: () => Date }

/** The device, if its cookie is genuine and belongs to this very account. A forged one costs no read. */
export async function findKnownDevice(
  { store, deviceTokens, clock }: DeviceDeps,
  deviceToken: string | null,
  email: string,
): Promise<Device | null> {
  if (deviceToken === null || !deviceTokens.isGenuine(deviceToken)) return null
  return store.findDevice(digestOf(deviceToken), email, clock())
}

/** What a success writes down: the known device was used again, or a new one is made known. */
export function deviceToRemember(
  { deviceTokens, clock }: DeviceDeps,
  known: Device | null,
): { device: UsedDevice; newToken: string | null } {
  if (known) return { device: { kind: 'known', id: known.id }, newToken: null }
  const newToken = deviceTokens.make()
  const expiresAt = new Date(clock().getTime() + DEVICE_SECONDS * 1000)
  const id = randomUUID()
  return { device: { kind: 'new', id, expiresAt, digest: digestOf(newToken) }, newToken }
}
