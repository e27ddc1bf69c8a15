// Operations on users, except those on their passwords.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  isLockedByAdministrator,
  SECOND_FACTOR_FILTERS,
  USER_STATES,
  type User,
  type UserDetails,
} from '../../domain/user.ts'
import { named, whole } from '../../http/openapi/operation.ts'
import { TIME } from '../../http/openapi/schemas.ts'
import { BLOCK_CACHED_MS } from '../../login/throttle.ts'
import { emailTaken, userNotFound, WrongUse } from '../../system/failures.ts'
import { CLIENT_FIELD, EXPLANATION, LISTED_USER, SHOWN_USER } from '../api/schemas.ts'
import { endParser, startParser } from '../input/times.ts'
import {
  nameParser,
  parseNewEmail,
  roleFilterParser,
  roleParser,
  searchParser,
  storedEmailParser,
} from '../input/values.ts'
import { count, fieldLines } from '../layout.ts'
import { type About, type Field, listOperation, operation } from '../operation.ts'
import { type AdminDeps, changeNow } from './deps.ts'
import { type Explanation, explainUser, isAdmitted } from './explain-user.ts'
import { describeState, fieldsOfUser, notesOn, sentenceOf, untilOf } from './explanation.ts'
import { FOR_EVER, findUser, toShownUser } from './user.ts'

export const IDENTITY_FIELDS = {
  email: { about: 'The email.', parse: () => parseNewEmail, examples: ['kate@example.com'] },
  name: { about: 'The display name.', parse: nameParser, examples: ['Kate'] },
  role: { about: 'The role in the access token.', parse: roleParser, examples: ['editor'] },
} as const satisfies Record<keyof UserDetails, Field>

export const listUsers = listOperation(
  {
    command: 'users list',
    request: 'GET /users',
    summary: 'List users',
    description: 'Ordered by email.',
    forCallers: 'A page may have fewer users than `limit` before the end.',
    examples: [
      ...['--search example.org --limit 100', '--state locked --json'],
      '--role admin --second-factor none',
      '--dormant 90d',
    ],
    for: 'helpdesk',
    fields: {
      search: {
        about: 'A part of the email or name.',
        parse: searchParser,
        input: { label: 'Name or email' },
      },
      role: { about: 'Only users with this role.', parse: roleFilterParser },
      state: {
        about:
          'Only users in this state. `locked`: by an administrator. `waiting`: by the throttle.',
        enum: USER_STATES,
        input: {
          choices: {
            ...{ '': 'Any', active: 'Active', waiting: 'Waiting' },
            ...{ locked: 'Locked', inactive: 'Inactive' },
          },
        },
      },
      secondFactor: {
        about: 'Only users without a second factor (`none`), or with one (`any`).',
        enum: SECOND_FACTOR_FILTERS,
        input: { label: 'Two-step login', choices: { '': 'Any', none: 'Off', any: 'On' } },
      },
      dormant: {
        about:
          'Only users without a login for this long, such as `90d`, or since a time. Those that never logged in count from the day on which they were added.',
        examples: ['90d'],
        parse: startParser,
        input: {
          label: 'Last login',
          choices: { '': 'Any', '90d': 'Not for 90 days', '365d': 'Not for a year' },
        },
      },
    },
  },
  {
    items: 'users',
    schema: LISTED_USER,
    parsePosition: storedEmailParser,
    async read(deps, { named: _, dormant, ...typed }, { from, limit }) {
      const { store, by } = deps
      const change = changeNow(deps)
      const now = change.at
      // Before any of them is shown.
      if (by.kind !== 'user') await store.audit.recordDaily(change, READ)
      const filter = { ...typed, ...(dormant && { dormantSince: dormant(now) }) }
      const page = await store.users.list(filter, { after: from ?? '', limit }, now)
      const items = page.users.map(({ lastLoginAt, secondFactor, ...user }) => ({
        ...toShownUser(user, now),
        ...{ lastLoginAt, secondFactor },
      }))
      return { items, next: page.next }
    },
    toRow: (user, now) => ({
      email: user.email,
      role: user.role,
      created: dayOf(user.createdAt),
      'last login': user.lastLoginAt ? dayOf(user.lastLoginAt) : '-',
      'second factor': user.secondFactor,
      state: describeState(user, now),
      // The last column, because some scripts have characters that are two columns wide.
      name: user.name,
    }),
    say({ named: _, ...filter }, listed, next) {
      if (next !== null) {
        return `Listed ${count(listed, 'user', 'users')}. To list the next ones, add --after ${quoted(next)}`
      }
      if (listed > 0) return null
      return Object.keys(filter).length > 0
        ? 'There are no such users.'
        : 'There are no users yet: run "users add" to add one.'
    },
  },
)

const READ = { action: 'users.read', target: 'all users', targetId: null } as const

const dayOf = (time: Date) => time.toISOString().slice(0, 10)

/** Quotes it for a shell: an email may have characters such as "'" and "$". */
function quoted(text: string): string {
  return /^[\w.+@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

export const getUser = operation(
  {
    command: 'users show',
    request: 'GET /users/:user',
    summary: 'Show a user, and why the user can or cannot log in',
    description: 'With `client`, it also tells whether a login from there would have to wait.',
    examples: ['ann@example.org', 'ann@example.org --client 203.0.113.7'],
    for: 'helpdesk',
    fields: { client: CLIENT_FIELD },
    data: EXPLANATION,
  },
  async (deps, { named, client = null }) => ({
    data: await explainUser(deps, await findUser(deps, named), client),
  }),
  (explained, _, now) => {
    const sentences = [sentenceOf(explained), ...notesOn(explained)]
    return `${sentences.join('\n')}\n${fieldLines(fieldsOfUser(explained, now))}`
  },
)

/** It is not atomic if `isActive` comes with other fields: these are changed first, in their own transaction. */
export const changeUser = operation(
  {
    command: 'users set',
    event: 'admin.user_changed',
    request: 'PATCH /users/:user',
    summary: 'Change the email, name or role of a user',
    description: 'Sessions and devices stay, and failures and blocks stay with the old email.',
    forCallers: '`isActive: false` ends all sessions.',
    examples: ['ann@example.org --email ann.lee@example.org --role admin'],
    for: 'administrator',
    form: {
      path: 'details',
      title: 'Details',
      about: 'Sessions stay. Failed logins stay with the old email.',
      label: 'Save',
      asks: ['email', 'name', 'role'],
      isEdit: true,
      helps: ({ verdict: { kind } }) => kind === 'unreachable-email',
      needsRecentLogin: ({ role }) => role !== undefined,
      done: 'The details are changed.',
    },
    fields: {
      ...IDENTITY_FIELDS,
      isActive: { type: 'boolean', about: 'Whether the user can log in.', only: 'route' },
    },
    data: named('ChangedUser', whole({ user: SHOWN_USER })),
    failures: ['EMAIL_TAKEN'],
  },
  async (deps, { named, isActive, ...fields }) => {
    const hasFields = Object.keys(fields).length > 0
    if (!hasFields && isActive === undefined)
      throw new WrongUse('There is nothing to change: name an email, a name or a role.')
    const user = await findUser(deps, named)
    const { id, email } = user
    const { users } = deps.store
    const change = changeNow(deps)
    const outcome = hasFields ? await users.set(id, fields, change) : { user, isChanged: true }
    if (outcome === 'taken') throw emailTaken(fields.email ?? email)
    if (outcome === 'unknown') throw userNotFound(email)
    const stored =
      isActive === undefined
        ? outcome.user
        : await users[isActive ? 'activate' : 'deactivate'](id, change)
    if (!stored) throw userNotFound(email)
    // Not read again: a failure of that would look like one of the change.
    const data = { user: toShownUser(stored, change.at) }
    if (!outcome.isChanged) {
      return { data, said: `${email} has these values already: nothing was changed.` }
    }
    const changes = Object.entries(fields).map(([name, value]) => `${name} "${value}"`)
    const { email: newEmail, ...others } = fields
    const facts = { email, ...others, ...(newEmail && { newEmail }) }
    const sentence = `Changed ${email}: ${changes.join(', ')}.`
    return { data, said: { facts, sentence } }
  },
)

const onUser = (
  about: About<Record<never, never>>,
  change: (deps: AdminDeps, user: User) => Promise<unknown>,
  sentence: (email: string) => string,
) =>
  operation(about, async (deps, { named }) => {
    const user = await findUser(deps, named)
    const { email } = user
    if (!(await change(deps, user))) throw userNotFound(email)
    return { said: { facts: { email }, sentence: sentence(email) } }
  })

export const activateUser = onUser(
  {
    command: 'users activate',
    event: 'admin.user_activated',
    request: null,
    summary: 'Let a user log in again',
    examples: ['ann@example.org'],
    for: 'administrator',
    form: {
      title: 'Activate',
      isFor: ({ isActive }) => !isActive,
      helps: ({ verdict: { kind } }) => kind === 'inactive',
      done: 'Logins are possible again.',
    },
  },
  (deps, { id }) => deps.store.users.activate(id, changeNow(deps)),
  email => `Activated ${email}.`,
)

export const deactivateUser = onUser(
  {
    command: 'users deactivate',
    event: 'admin.user_deactivated',
    request: null,
    summary: 'Stop a user from logging in',
    description: 'Ends all sessions.',
    examples: ['ann@example.org'],
    for: 'administrator',
    form: {
      title: 'Deactivate',
      about: 'Stops logins and ends all sessions. You can activate the person again.',
      question: name => `Deactivate ${name}?`,
      isFor: ({ isActive }) => isActive,
      done: 'Deactivated. All sessions have ended.',
    },
  },
  (deps, { id }) => deps.store.users.deactivate(id, changeNow(deps)),
  email => `Deactivated ${email} and ended all sessions.`,
)

export const lockUser = operation(
  {
    command: 'users lock',
    event: 'admin.user_locked',
    request: 'PUT /users/:user/lock',
    summary: 'Lock a user',
    description: 'Ends all sessions.',
    examples: ['ann@example.org --until 2h', 'ann@example.org'],
    for: 'administrator',
    form: {
      title: 'Lock',
      about: 'Stops logins for a time and ends all sessions.',
      isFor: ({ state }) => state === 'active' || state === 'waiting',
      done: 'Locked. All sessions have ended.',
    },
    fields: {
      until: {
        about:
          'A time, in UTC if it has no zone, or a duration such as `90m`, `2h` or `30d`. Without it the lock does not end.',
        examples: ['2030-01-31T12:00'],
        input: {
          label: 'For',
          choices: { '2h': '2 hours', '1d': '1 day', '7d': '7 days', '': 'Without end' },
          initial: '2h',
        },
        parse: endParser,
      },
    },
    data: named('Lock', whole({ until: TIME })),
  },
  async (deps, { named, until: end = () => FOR_EVER }) => {
    const { id, email } = await findUser(deps, named)
    const change = changeNow(deps)
    const until = end(change.at)
    if (until <= change.at) throw new WrongUse('A lock must end in the future.', 'until')
    if (!(await deps.store.users.lock(id, until, change))) throw userNotFound(email)
    const sentence = `Locked ${email}${untilOf(until)} and ended all sessions.`
    return { data: { until }, said: { facts: { email, until }, sentence } }
  },
)

/** Not by a wait of a client or network, whatever the email. */
function isHelpedByUnlocking({ verdict, throttle }: Explanation): boolean {
  const { kind } = verdict
  if (kind === 'must-wait') return ['pair', 'email'].includes(verdict.because.scope)
  if (['locked', 'only-known-devices', 'too-many-guesses'].includes(kind)) return true
  return isAdmitted(kind) && (throttle.clients?.waiting ?? 0) > 0
}

export const unlockUser = onUser(
  {
    command: 'users unlock',
    event: 'admin.user_unlocked',
    request: 'DELETE /users/:user/lock',
    summary: 'Unlock a user',
    description: 'Clears the lock, failures, wrong codes and blocks of the email.',
    examples: ['ann@example.org'],
    for: 'helpdesk',
    form: {
      title: 'Unlock',
      isFor: isHelpedByUnlocking,
      helps: isHelpedByUnlocking,
      isBeyondHelpdesk: isLockedByAdministrator,
      done: 'Unlocked.',
    },
  },
  async (deps, { id }) => {
    const isUnlocked = await deps.store.users.unlock(id, changeNow(deps))
    // After this time no running instance has an earlier block in its cache.
    if (isUnlocked) await sleep(BLOCK_CACHED_MS)
    return isUnlocked
  },
  email =>
    `Unlocked ${email}. Blocks of clients and networks were not cleared: "throttle clear --client IP" does that.`,
)

export const deleteUser = onUser(
  {
    command: 'users delete',
    event: 'admin.user_deleted',
    request: 'DELETE /users/:user',
    summary: 'Delete a user',
    description: 'With all sessions, devices and second factors. The audit keeps a pseudonym.',
    examples: ['ann@example.org --yes'],
    for: 'administrator',
    form: {
      title: 'Delete',
      about:
        'Removes the person with all sessions, devices and second factors, for good. The history keeps a pseudonym. To stop logins for a while, deactivate the person.',
      label: 'Delete for good',
      isEmailTyped: true,
      needsRecentLogin: () => true,
      done: 'The person is deleted.',
    },
    question: email => `Delete ${email} for good?`,
  },
  async (deps, { id }) => (await deps.store.users.delete(id, changeNow(deps))) !== null,
  email => `Deleted ${email}.`,
)
