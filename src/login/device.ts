// Device cookies: a browser that has logged in to an account before has its own attempt budget, so that
// the guesses of other callers cannot lock the owner out. A device cookie does not authenticate its sender.
import { createHmac, createSecretKey, randomUUID, timingSafeEqual } from 'node:crypto'
import type { UsedDevice } from '../domain/attempt.ts'
import type { Device } from '../domain/device.ts'
import { DEVICE_IDLE_SECONDS, DEVICE_MAX_SECONDS } from '../domain/lifetimes.ts'
import type { Store } from '../domain/store.ts'
import { digestOf, randomToken } from '../system/identifiers.ts'

/** 256 random bits in base64url. */
const RANDOM_CHARACTERS = 43
/** 128 bits. A forged tag that happened to be right would gain one lookup and nothing else. */
const TAG_BYTES = 16

/** A token is random text followed by a tag, so that an invented one is recognised without a lookup. */
export type DeviceTokens = {
  make(): string
  isGenuine(token: string): boolean
}

/** All instances share `hexKey`, and it never changes. */
export function createDeviceTokens(hexKey: string): DeviceTokens {
  const key = createSecretKey(hexKey, 'hex')
  const tagOf = (random: string) =>
    createHmac('sha256', key).update(random).digest().subarray(0, TAG_BYTES).toString('base64url')
  return {
    make() {
      const random = randomToken()
      return random + tagOf(random)
    },
    isGenuine(token) {
      const given = Buffer.from(token.slice(RANDOM_CHARACTERS))
      const expected = Buffer.from(tagOf(token.slice(0, RANDOM_CHARACTERS)))
      return given.length === expected.length && timingSafeEqual(given, expected)
    },
  }
}

type DeviceDeps = {
  store: Pick<Store, 'devices'>
  deviceTokens: DeviceTokens
  clock: () => Date
}

type KnownDevice = Device & { token: string }

/** The browser keeps the cookie for as long as its device is known. */
export type DeviceCookie = { value: string; maxAgeSeconds: number }

/** The device, if its token is genuine and it is known to this account. */
export async function findKnownDevice(
  { store, deviceTokens, clock }: DeviceDeps,
  deviceToken: string | null,
  email: string,
): Promise<KnownDevice | null> {
  if (deviceToken === null || !deviceTokens.isGenuine(deviceToken)) return null
  // A lookup with the email would take longer if the email has a user.
  const device = await store.devices.find(digestOf(deviceToken), clock())
  return device?.email === email ? { ...device, token: deviceToken } : null
}

/** What a successful login stores: another use of the known device, or a new device. Both get the cookie. */
export function deviceToRemember(
  { deviceTokens, clock }: DeviceDeps,
  known: KnownDevice | null,
): { device: UsedDevice; cookie: DeviceCookie } {
  const now = clock()
  const firstUsedAt = known?.createdAt ?? now
  const expiresMs = Math.min(
    now.getTime() + DEVICE_IDLE_SECONDS * 1000,
    firstUsedAt.getTime() + DEVICE_MAX_SECONDS * 1000,
  )
  const expiresAt = new Date(expiresMs)
  const value = known?.token ?? deviceTokens.make()
  const cookie = { value, maxAgeSeconds: Math.floor((expiresMs - now.getTime()) / 1000) }
  if (known) return { device: { kind: 'known', id: known.id, expiresAt }, cookie }
  return { device: { kind: 'new', id: randomUUID(), expiresAt, digest: digestOf(value) }, cookie }
}
