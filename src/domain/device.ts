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
  /** With the email of the account that knows the device. */
  find(digest: string, now: Date): Promise<(Device & { email: string }) | null>
  list(userId: string, now: Date): Promise<Device[]>
  /** The key that tags device cookies, 256 bits in hex. It is created with the tables and never changes. */
  readKey(): Promise<string>
}
