import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { User } from '../domain/user.ts'
import { isLockedByAdministrator } from '../domain/user.ts'
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
    ['a temporary password before its end', { temporaryUntil: FUTURE }],
    ['a user locked by the throttle', { lockedUntil: FUTURE, lockedBy: 'throttle' }],
  ]
  for (const [name, change] of ACCEPTED) {
    test(`accepts ${name}`, () => {
      const user = { ...USER, ...change }
      assert.deepEqual(decide(user, true, NOW), { kind: 'accepted', user })
    })
  }

  const REJECTED: [name: string, user: User | null, matches: boolean, reason: string][] = [
    ['an unknown email', null, false, 'unknown-email'],
    ['an unknown email even if the password matched', null, true, 'unknown-email'],
    ['a wrong password', USER, false, 'wrong-password'],
    ['an inactive user', { ...USER, isActive: false }, true, 'inactive'],
    [
      'an inactive user with a wrong password',
      { ...USER, isActive: false },
      false,
      'wrong-password',
    ],
    [
      'a temporary password at its end',
      { ...USER, temporaryUntil: NOW },
      true,
      'temporary-password-ended',
    ],
    [
      'a temporary password until an invalid date',
      { ...USER, temporaryUntil: new Date('infinity') },
      true,
      'temporary-password-ended',
    ],
    [
      'a user locked by an administrator',
      { ...USER, lockedUntil: FUTURE, lockedBy: 'administrator' },
      true,
      'locked-by-administrator',
    ],
    [
      'a user locked until an invalid date',
      { ...USER, lockedUntil: new Date('infinity'), lockedBy: 'administrator' },
      true,
      'locked-by-administrator',
    ],
    [
      'a locked user without lockedBy',
      { ...USER, lockedUntil: FUTURE },
      true,
      'locked-by-administrator',
    ],
    [
      'an inactive user that is locked too',
      { ...USER, isActive: false, lockedUntil: FUTURE, lockedBy: 'administrator' },
      true,
      'inactive',
    ],
  ]
  for (const [name, user, matches, reason] of REJECTED) {
    test(`rejects ${name}: ${reason}`, () => {
      assert.deepEqual(decide(user, matches, NOW), { kind: 'rejected', reason })
    })
  }

  test('does not treat a user without lockedUntil as locked, even if lockedBy is set', () => {
    assert.equal(isLockedByAdministrator({ ...USER, lockedBy: 'administrator' }, NOW), false)
  })
})
