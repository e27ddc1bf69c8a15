import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { User } from '../domain/user.ts'
import { decide } from './decision.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const PAST = new Date(NOW.getTime() - 1)
const FUTURE = new Date(NOW.getTime() + 1)

const USER: User = {
  id: '0b6f5c3e-0000-4000-8000-000000000001',
  email: 'kate@example.com',
  passwordHash: 'x',
  name: 'Kate',
  role: 'user',
  isActive: true,
  failedLoginAttempts: 0,
  lockedUntil: null,
  lockedBy: null,
  temporaryUntil: null,
  createdAt: PAST,
  updatedAt: PAST,
}

describe('the decision', () => {
  const ACCEPTED: [name: string, change: Partial<User>][] = [
    ['an active user', {}],
    ['a user with many earlier failures', { failedLoginAttempts: 1_000 }],
    ['a user whose lock has ended', { lockedUntil: PAST, lockedBy: 'administrator' }],
    ['a user whose lock ends now', { lockedUntil: NOW, lockedBy: 'administrator' }],
    ['a user whose lock was ended', { lockedUntil: null, lockedBy: 'administrator' }],
    ['a temporary password before its end', { temporaryUntil: FUTURE }],
    ['a user locked by the throttle', { lockedUntil: FUTURE, lockedBy: 'throttle' }],
  ]
  for (const [name, change] of ACCEPTED) {
    test(`accepts ${name}`, () => {
      const user = { ...USER, ...change }
      assert.deepEqual(decide(user, true, NOW), { kind: 'accepted', user })
    })
  }

  const ADMIN = 'administrator'
  const ENDED = 'temporary-password-ended'
  const NEVER = new Date('infinity')
  const REJECTED: [name: string, change: Partial<User> | null, matches: boolean, reason: string][] =
    [
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
  for (const [name, change, matches, reason] of REJECTED) {
    test(`rejects ${name}: ${reason}`, () => {
      const user = change && { ...USER, ...change }
      assert.deepEqual(decide(user, matches, NOW), { kind: 'rejected', reason })
    })
  }
})
