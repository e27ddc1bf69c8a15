// The words in which a user, its failures and its waits are shown.
import type { ScopeName } from '../../domain/attempt.ts'
import { ALARMING_GUESSES } from '../../domain/second-factor.ts'
import { WINDOW_MINUTES } from '../../domain/throttle.ts'
import type { User, UserDetails, UserState } from '../../domain/user.ts'
import { userState } from '../../login/user-state.ts'
import { count, type Row, timeText } from '../layout.ts'
import type { Explanation } from './explain-user.ts'
import { latestOf, type ShownScope } from './read-throttle.ts'
import { FOR_EVER } from './user.ts'

export function describeState(
  user: Pick<User, 'isActive' | 'lockedUntil' | 'lockedBy'>,
  now: Date,
): string {
  const term = user.lockedUntil ? untilOf(user.lockedUntil) : ''
  const locks: Partial<Record<UserState, string>> = {
    locked: `locked by administrator${term}`,
    waiting: `waiting${term}`,
  }
  const lock = locks[userState({ ...user, isActive: true }, now)]
  if (!user.isActive) return lock ? `inactive, ${lock}` : 'inactive'
  return lock ?? 'active'
}

export function untilOf(end: Date): string {
  return end >= FOR_EVER ? '' : ` until ${timeText(end)}`
}

/** The verdict in one line. */
export function sentenceOf(explained: Explanation): string {
  const { email, client, verdict, throttle } = explained
  switch (verdict.kind) {
    case 'inactive':
      return `${email} cannot log in: the user is not active ("users activate" changes that).`
    case 'locked':
      return `${email} cannot log in: locked by an administrator${untilOf(verdict.until)} ("users unlock" ends it).`
    case 'unreachable-email':
      return `${email} cannot log in: no login looks up an email in this form ("doctor" explains it).`
    case 'unusable-hash':
      return `${email} cannot log in: the stored password hash cannot be used ("users set-password" replaces it).`
    case 'temporary-password-ended':
      return `${email} cannot log in: the temporary password ended at ${timeText(verdict.at)} ("users set-password --generate" gives a new one).`
    case 'must-change-password':
      return `${email} can only set a new password: the current one is temporary${untilOf(verdict.until)}.`
    case 'must-set-up-second-factor':
      return `${email} can only set up a second factor: the role demands one.`
    case 'too-many-guesses':
      return `${email} cannot log in: after so many wrong codes no code is accepted.`
    case 'only-known-devices':
      return explained.devices.length > 0
        ? `${email} can log in on known devices only, after so many wrong codes.`
        : `${email} cannot log in: after so many wrong codes a known device is needed, and there is none.`
    case 'must-wait': {
      const { because, until } = verdict
      const from = client && because.scope !== 'email' ? `From ${client}, ` : ''
      const devices = explained.devices.some(({ waitsUntil }) => waitsUntil === null)
        ? ' Known devices can log in.'
        : ''
      return `${from}${email} must wait${untilOf(until)}: ${reasonOf(because)}.${devices}`
    }
    case 'can-log-in': {
      const from = client ? `From ${client}, ` : ''
      const clients = client ? 0 : (throttle.clients?.waiting ?? 0)
      const devices = explained.devices.filter(({ waitsUntil }) => waitsUntil !== null).length
      const exceptions = [
        clients > 0 && `from ${count(clients, 'client that waits', 'clients that wait')}`,
        devices > 0 && `on ${count(devices, 'known device that waits', 'known devices that wait')}`,
      ].filter(Boolean)
      const except = exceptions.length > 0 ? `, except ${exceptions.join(' and ')}` : ''
      return `${from}${email} can log in${except}.`
    }
    default:
      return verdict satisfies never
  }
}

/** What an administrator should know besides the verdict. */
export function notesOn({ failedSecondSteps: guesses, codeOffsetSeconds }: Explanation): string[] {
  const passwordKnown = `The right password came with a wrong code ${guesses} times: somebody may know the password ("users set-password --generate" replaces it).`
  const wrongClock = (offset: number) =>
    `The last code was ${Math.abs(offset)} seconds ${offset < 0 ? 'late' : 'early'}: check the clock of the phone.`
  return [
    ...(guesses >= ALARMING_GUESSES ? [passwordKnown] : []),
    ...(codeOffsetSeconds === null ? [] : [wrongClock(codeOffsetSeconds)]),
  ]
}

function describeFactors(explained: Explanation): string {
  const { factors, recoveryCodesLeft, isSecondFactorDemanded } = explained
  const [first] = factors
  if (!first) return isSecondFactorDemanded ? 'off, although the role demands one' : 'off'
  const used = latestOf(factors.flatMap(({ lastUsedAt }) => lastUsedAt ?? []))
  return [
    `on since ${timeText(first.createdAt)}`,
    used ? `last used ${timeText(used)}` : 'not used yet',
    `${count(recoveryCodesLeft, 'recovery code', 'recovery codes')} left`,
  ].join(', ')
}

function reasonOf({ scope, failures, budget, maxFailures, maxDailyFailures }: ShownScope): string {
  const reasons: Record<ScopeName, string> = {
    pair: `${failures} failures for this email from this client`,
    email:
      budget < maxFailures
        ? `the ${maxDailyFailures} failures for the day are used up, after which one is allowed in ${WINDOW_MINUTES} minutes`
        : `${failures} failures in ${WINDOW_MINUTES} minutes`,
    client: `${failures} failures from this client, with any email`,
    network: `${failures} failures from the network of this client, with any email`,
    device: `${failures} failures from this device`,
  }
  return reasons[scope]
}

export const SCOPE_LABELS: Record<ScopeName, string> = {
  pair: 'email and client',
  email: 'email',
  client: 'client',
  network: 'network',
  device: 'device',
}

export function fieldsOfUser(user: Explanation, now: Date): Row {
  const { email, name, role } = user
  const details: Record<keyof UserDetails, string> = { email, name, role }
  const waits = user.devices.flatMap(({ waitsUntil }) => waitsUntil ?? [])
  return {
    ...details,
    id: user.id,
    state: describeState(user, now),
    'failures in a row': String(user.failedLoginAttempts),
    ...fieldsOfThrottle(user.throttle),
    'last login': user.lastLoginAt ? timeText(user.lastLoginAt) : 'none is known',
    devices: `${user.devices.length} known${waitingOf(waits.length, latestOf(waits))}`,
    sessions: `${user.liveSessions} live`,
    'second factor': describeFactors(user),
    'password hash': user.hashCost === null ? 'unusable' : `bcrypt, cost ${user.hashCost}`,
    ...(user.temporaryUntil && { 'temporary password': `until ${timeText(user.temporaryUntil)}` }),
    created: timeText(user.createdAt),
    updated: timeText(user.updatedAt),
  }
}

export function fieldsOfThrottle({ scopes, clients }: Explanation['throttle']): Row {
  const fields = scopes.map(scope => [`failures of ${SCOPE_LABELS[scope.scope]}`, describe(scope)])
  return {
    ...Object.fromEntries(fields),
    ...(clients && {
      'clients that failed': `${clients.clients}${waitingOf(clients.waiting, clients.waitsUntil)}`,
    }),
  }
}

function describe(scope: ShownScope): string {
  const { failures, maxFailures, dailyFailures, maxDailyFailures, pending, waitsUntil } = scope
  return [
    `${failures} of ${maxFailures} in ${WINDOW_MINUTES} minutes`,
    ...(maxDailyFailures === null ? [] : [`${dailyFailures} of ${maxDailyFailures} for the day`]),
    ...(pending === 0 ? [] : [`${pending} in progress`]),
    ...(waitsUntil === null ? [] : [`waits${untilOf(waitsUntil)}`]),
  ].join(', ')
}

function waitingOf(waiting: number, until: Date | null): string {
  return until === null ? '' : `, ${count(waiting, 'waits', 'wait')}${untilOf(until)}`
}
