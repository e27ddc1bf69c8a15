// What a login is given, and what becomes of it.
import type { ScopeName } from '../domain/attempt.ts'
import type { FactorsChange } from '../domain/second-factor.ts'
import type { User } from '../domain/user.ts'
import type { ShedReason } from './admission.ts'
import type { RejectionReason } from './decision.ts'
import type { DeviceCookie } from './device.ts'
import type { OpenedSession } from './open-session.ts'
import type { NewPasskey, PasskeyFlaw } from './passkey.ts'
import type { PasswordFlaw } from './password-rules.ts'
import type { Proof } from './second-step.ts'

export type LoginAttempt = {
  email: string
  password: string
  proof: Proof
  /** If it is given, the login also replaces the password by this one. */
  newPassword?: string | undefined
  /** The same for a change of the second factors. */
  factorRequest?: FactorRequest | undefined
  client: Client
  /** The value of the device cookie that the caller sent. */
  deviceToken: string | null
  /** The value of the session cookie that the caller sent. A browser's successful login ends that session. */
  sessionCookie: string | null
}

/** What a login asks to change of the user's second factors. */
export type FactorRequest =
  /** `secret` is in base32; `newOtp` shows that an app has it. */
  | { kind: 'set-totp'; secret: string; newOtp: string }
  | { kind: 'add-passkey'; passkey: NewPasskey }
  /** Without an id it is the app. */
  | { kind: 'remove'; id: string | null }
  | { kind: 'new-recovery-codes' }

/** `field` is what the caller sent. */
export type FactorFlaw = {
  field: 'secret' | 'newOtp' | 'newPasskey' | 'remove' | 'recoveryCodes'
  reason: FactorFlawReason
}
type FactorFlawReason =
  | 'malformed'
  | 'wrong_code'
  | `passkey_${PasskeyFlaw | 'known'}`
  | 'too_many_passkeys'
  | 'no_second_factor'
  | 'demanded'

export type Client = {
  ip: string
  /** The client scope counts by this: an IPv4 address, or the /64 network of an IPv6 address. */
  group: string
  /** The /48 network of an IPv6 address, which may belong to one subscriber; null for IPv4. */
  network: string | null
  userAgent: string
  /** Only browsers get cookies. */
  isBrowser: boolean
}

export type LoginOutcome =
  | {
      kind: 'signed-in'
      user: User
      session: OpenedSession
      /** Null if the caller is not a browser. */
      deviceCookie: DeviceCookie | null
      isPasswordChanged: boolean
      secondFactor: {
        /** After this login. */
        isOn: boolean
        change: FactorsChange['kind'] | null
        /** New ones, to be shown once. */
        recoveryCodes: string[] | null
        isRecoveryCodeUsed: boolean
      }
      /** Replaces a hash of another cost, after the answer; null if that is not necessary. */
      rehash: (() => Promise<void>) | null
    }
  /** The password is right, but temporary: it is only good for setting another one, and a second factor if required. */
  | {
      kind: 'change-required'
      userId: string
      hasSecondFactor: boolean
      isFactorRequired: boolean
    }
  /** The password is right, but the role of its user demands a second factor: it is only good for setting one up. */
  | { kind: 'second-factor-required'; userId: string }
  /** Password and proof are right, but nothing was changed: the new password is not fit for this user. */
  | { kind: 'unfit-password'; userId: string; flaw: PasswordFlaw }
  | { kind: 'unfit-factor'; userId: string; flaw: FactorFlaw }
  | {
      kind: 'rejected'
      email: string
      reason: RejectionReason
      /** Set at every 100th consecutive failure of a user. */
      alarm: { userId: string; failures: number } | null
      /** Set at the third and every tenth wrong code that came with the right password. */
      passwordKnown: { userId: string; guesses: number } | null
      /** Of a code that is right at another time. */
      codeOffsetSeconds: number | null
    }
  | {
      kind: 'throttled'
      email: string
      scope: ScopeName
      retryAfterSeconds: number
      lockedUserId: string | null
    }
  /** The service has no time for it. The attempt is not counted. */
  | { kind: 'shed'; email: string; reason: ShedReason }
