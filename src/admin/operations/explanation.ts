// The words in which a user, its failures and its waits are shown.
import type { ScopeName } from '../../domain/attempt.ts'
import { ALARMING_GUESSES } from '../../domain/second-factor.ts'
import { WINDOW_MINUTES } from '../../domain/throttle.ts'
import type { User, UserDetails, UserState } from '../../domain/user.ts'
import { userState } from '../../login/user-state.ts'
import { count, type Row, timeText } from '../layout.ts'
import { type Explanation, isAdmitted } from './explain-user.ts'
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

type ToText = (moment: Date) => string

export function untilOf(end: Date, toText: ToText = timeText): string {
  return end >= FOR_EVER ? '' : ` until ${toText(end)}`
}

/** `advise` is given the command that helps. */
type Words = { toTime: ToText; advise: (command: string) => string }
const FOR_COMMANDS: Words = { toTime: timeText, advise: command => ` (${command})` }

/** The verdict in one line. */
export function sentenceOf(explained: Explanation, { toTime, advise } = FOR_COMMANDS): string {
  const { email, client, verdict, throttle } = explained
  const until = (end: Date) => untilOf(end, toTime)
  switch (verdict.kind) {
    case 'inactive':
      return `${email} cannot log in: the user is not active${advise('"users activate" changes that')}.`
    case 'locked':
      return `${email} cannot log in: locked by an administrator${until(verdict.until)}${advise('"users unlock" ends it')}.`
    case 'unreachable-email':
      return `${email} cannot log in: no login looks up an email in this form${advise('"doctor" explains it')}.`
    case 'unusable-hash':
      return `${email} cannot log in: the stored password hash cannot be used${advise('"users set-password" replaces it')}.`
    case 'temporary-password-ended':
      return `${email} cannot log in: the temporary password ended at ${toTime(verdict.at)}${advise('"users set-password --generate" gives a new one')}.`
    case 'must-change-password':
      return `${email} can only set a new password: the current one is temporary${until(verdict.until)}.`
    case 'must-set-up-second-factor':
      return `${email} can only set up a second factor: the role demands one.`
    case 'too-many-guesses':
      return `${email} cannot log in: after so many wrong codes no code is accepted.`
    case 'only-known-devices':
      return explained.devices.length > 0
        ? `${email} can log in on known devices only, after so many wrong codes.`
        : `${email} cannot log in: after so many wrong codes a known device is needed, and there is none.`
    case 'must-wait': {
      const { because } = verdict
      const from = client && because.scope !== 'email' ? `From ${client}, ` : ''
      const devices = explained.devices.some(({ waitsUntil }) => waitsUntil === null)
        ? ' Known devices can log in.'
        : ''
      return `${from}${email} must wait${until(verdict.until)}: ${reasonOf(because)}.${devices}`
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
export function notesOn(explained: Explanation, { toTime, advise } = FOR_COMMANDS): string[] {
  const { failedSecondSteps: guesses, codeOffsetSeconds, verdict, throttle } = explained
  const { waiting = 0, waitsUntil = null } = throttle.clients ?? {}
  // The sentence of those that can log in says it.
  const isUntold = verdict.kind !== 'can-log-in' && isAdmitted(verdict.kind)
  const passwordKnown = `The right password came with a wrong code ${guesses} times: somebody may know the password${advise('"users set-password --generate" replaces it')}.`
  const wrongClock = (offset: number) =>
    `The last code was ${Math.abs(offset)} seconds ${offset < 0 ? 'late' : 'early'}: check the clock of the phone.`
  return [
    ...(isUntold && waitsUntil
      ? [`${count(waiting, 'client waits', 'clients wait')}${untilOf(waitsUntil, toTime)}.`]
      : []),
    ...(guesses >= ALARMING_GUESSES ? [passwordKnown] : []),
    ...(codeOffsetSeconds === null ? [] : [wrongClock(codeOffsetSeconds)]),
  ]
}

function describeFactors(explained: Explanation, toTime: ToText): string {
  const { factors, recoveryCodesLeft, isSecondFactorDemanded } = explained
  const [first] = factors
  if (!first) return isSecondFactorDemanded ? 'off, although the role demands one' : 'off'
  const used = latestOf(factors.flatMap(({ lastUsedAt }) => lastUsedAt ?? []))
  return [
    `on since ${toTime(first.createdAt)}`,
    used ? `last used ${toTime(used)}` : 'not used yet',
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

export function fieldsOfUser(user: Explanation, now: Date, toTime: ToText = timeText): Row {
  const { email, name, role } = user
  const details: Record<keyof UserDetails, string> = { email, name, role }
  const waits = user.devices.flatMap(({ waitsUntil }) => waitsUntil ?? [])
  return {
    ...details,
    id: user.id,
    state: describeState(user, now),
    'failures in a row': String(user.failedLoginAttempts),
    ...fieldsOfThrottle(user.throttle, toTime),
    'last login': user.lastLoginAt ? toTime(user.lastLoginAt) : 'none is known',
    devices: `${user.devices.length} known${waitingOf(waits.length, latestOf(waits), toTime)}`,
    sessions: `${user.liveSessions} live`,
    'second factor': describeFactors(user, toTime),
    'password hash': user.hashCost === null ? 'unusable' : `bcrypt, cost ${user.hashCost}`,
    ...(user.temporaryUntil && { 'temporary password': `until ${toTime(user.temporaryUntil)}` }),
    created: toTime(user.createdAt),
    updated: toTime(user.updatedAt),
  }
}

export function fieldsOfThrottle(
  { scopes, clients }: Explanation['throttle'],
  toTime: ToText = timeText,
): Row {
  const fields = scopes.map(scope => [
    `failures of ${SCOPE_LABELS[scope.scope]}`,
    describe(scope, toTime),
  ])
  return {
    ...Object.fromEntries(fields),
    ...(clients && {
      'clients that failed': `${clients.clients}${waitingOf(clients.waiting, clients.waitsUntil, toTime)}`,
    }),
  }
}

function describe(scope: ShownScope, toTime: ToText): string {
  const { failures, maxFailures, dailyFailures, maxDailyFailures, pending, waitsUntil } = scope
  return [
    `${failures} of ${maxFailures} in ${WINDOW_MINUTES} minutes`,
    ...(maxDailyFailures === null ? [] : [`${dailyFailures} of ${maxDailyFailures} for the day`]),
    ...(pending === 0 ? [] : [`${pending} in progress`]),
    ...(waitsUntil === null ? [] : [`waits${untilOf(waitsUntil, toTime)}`]),
  ].join(', ')
}

function waitingOf(waiting: number, until: Date | null, toTime: ToText): string {
  return until === null ? '' : `, ${count(waiting, 'waits', 'wait')}${untilOf(until, toTime)}`
}
