// Known devices: browsers that have logged in to an account before.

export type Device = {
  id: string
  userId: string
  createdAt: Date
  lastUsedAt: Date
  expiresAt: Date
  userAgent: string
}

export interface DeviceStore {
  /** The device with this digest, if it is known to the account with this email. */
  find(digest: string, email: string, now: Date): Promise<Device | null>
  list(userId: string, now: Date): Promise<Device[]>
  /** The key that tags device cookies, 256 bits in hex. It is created with the tables and never changes. */
  readKey(): Promise<string>
}
