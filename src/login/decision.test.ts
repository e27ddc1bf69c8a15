import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_GUESS } from '../domain/second-factor.ts'
import type { User } from '../domain/user.ts'
import { decide } from './decision.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const PAST = new Date(NOW.getTime() - 1)
const FUTURE = new Date(NOW.getTime() + 1)

const USER: User = {
  ...{ id: '0b6f5c3e-0000-4000-8000-000000000001', email: 'kate@example.com', passwordHash: 'x' },
  ...{ name: 'Kate', role: 'user', isActive: true, failedLoginAttempts: 0, lockedUntil: null },
  ...{ lockedBy: null, temporaryUntil: null, createdAt: PAST, updatedAt: PAST },
  ...{ factorsVersion: 0, failedSecondSteps: 0, codeOffsetSeconds: null },
}

const ADMIN = 'administrator'
const ENDED = 'temporary-password-ended'
const NEVER = new Date('infinity')

/** With the reason of the rejection; null if the user is accepted. */
const CASES: [
  what: string,
  change: Partial<User> | null,
  matches: boolean,
  reason: string | null,
][] = [
  ['an active user', {}, true, null],
  ['a user with many earlier failures', { failedLoginAttempts: 1_000 }, true, null],
  ['a lock that has ended', { lockedUntil: PAST, lockedBy: ADMIN }, true, null],
  ['a lock that ends now', { lockedUntil: NOW, lockedBy: ADMIN }, true, null],
  ['a lock that was ended', { lockedUntil: null, lockedBy: ADMIN }, true, null],
  ['a temporary password before its end', { temporaryUntil: FUTURE }, true, null],
  ['a lock by the throttle', { lockedUntil: FUTURE, lockedBy: 'throttle' }, true, null],
  ['an unknown email', null, false, 'unknown-email'],
  ['an unknown email even if the password matched', null, true, 'unknown-email'],
  ['a wrong password', {}, false, 'wrong-password'],
  ['an inactive user', { isActive: false }, true, 'inactive'],
  ['an inactive user with a wrong password', { isActive: false }, false, 'wrong-password'],
  ['a temporary password at its end', { temporaryUntil: NOW }, true, ENDED],
  ['an invalid end of it', { temporaryUntil: NEVER }, true, ENDED],
  ['a lock', { lockedUntil: FUTURE, lockedBy: ADMIN }, true, 'locked-by-administrator'],
  ['an invalid end', { lockedUntil: NEVER, lockedBy: ADMIN }, true, 'locked-by-administrator'],
  ['a lock without lockedBy', { lockedUntil: FUTURE }, true, 'locked-by-administrator'],
  ['a locked inactive user', { isActive: false, lockedUntil: FUTURE }, true, 'inactive'],
]

const NOT_NEEDED = { kind: 'not-needed' } as const
const FAILED = { guessesBelow: 10, codeOffsetSeconds: null }
const WRONG_CODE = { kind: 'unproved', reason: 'code-wrong', failed: FAILED } as const

for (const [what, change, matches, reason] of CASES) {
  test(`the decision on ${what}: ${reason ?? 'accepted'}`, () => {
    const user = change && { ...USER, ...change }
    const expected =
      reason === null
        ? { kind: 'accepted', user, step: NOT_NEEDED }
        : { kind: 'rejected', reason, failed: NO_GUESS }
    assert.deepEqual(decide(user, matches, NOT_NEEDED, NOW), expected)
    // A wrong code is the last of several reasons, and no guess beside any other.
    const second =
      reason === null ? { reason: 'code-wrong', failed: FAILED } : { reason, failed: NO_GUESS }
    assert.deepEqual(decide(user, matches, WRONG_CODE, NOW), { kind: 'rejected', ...second })
  })
}
