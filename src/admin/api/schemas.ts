// The objects in answers of the admin API, and the fields that several of its requests have.

import { SECOND_FACTORS, USER_STATES, type User, type UserDetails } from '../../domain/user.ts'
import { named, object, orNull, whole } from '../../http/openapi/operation.ts'
import {
  ID,
  LAST_LOGIN_FIELDS,
  SESSION_FIELDS,
  TIME,
  USER_FIELDS,
} from '../../http/openapi/schemas.ts'
import { FACTOR_FIELDS } from '../../http/routes/sessions.ts'
import { clientParser, countParser } from '../input/values.ts'

export const PAGE_MAX = 100

export function countField(byDefault = PAGE_MAX, max = PAGE_MAX) {
  return {
    about: `How many: 1 to ${max}; by default ${byDefault}.`,
    examples: ['20'],
    parse: (label: string) => countParser(label, max),
  }
}

export const CLIENT_FIELD = {
  about: 'The IP address of a client.',
  examples: ['203.0.113.9'],
  parse: clientParser,
  input: { label: 'Check one address' },
}

export function listOf(items: object) {
  return { type: 'array', items }
}

export const INTEGER = { type: 'integer', examples: [0] }
const WAITS_UNTIL = orNull(TIME, 'Null if it need not wait.')
const DIGEST = {
  type: 'string',
  description: 'It stands for the email, client or device, which is not stored.',
}

const { id, email, name, role, createdAt } = USER_FIELDS
const SHOWN_USER_FIELDS = {
  ...{ id, email, name, role },
  isActive: { type: 'boolean', examples: [true] },
  failedLoginAttempts: { ...INTEGER, description: 'Since the last login.' },
  lockedUntil: orNull(TIME),
  lockedBy: { type: ['string', 'null'], enum: ['throttle', 'administrator', null] },
  temporaryUntil: orNull(
    TIME,
    'The end of a temporary password; null if the password is permanent.',
  ),
  failedSecondSteps: {
    ...INTEGER,
    description: 'Wrong codes that came with the right password.',
  },
  codeOffsetSeconds: orNull(
    INTEGER,
    'How far the last code was too early (positive) or too late; null if the last one fitted.',
  ),
  createdAt,
  updatedAt: TIME,
  state: {
    type: 'string',
    enum: USER_STATES,
    description: '`locked`: by an administrator. `waiting`: by the throttle.',
  },
} satisfies Record<Exclude<keyof User, 'passwordHash' | 'factorsVersion'> | 'state', object>

const { id: sessionId, ...otherSessionFields } = SESSION_FIELDS
const { userAgent, ip } = SESSION_FIELDS
const SCOPE_NAME = { type: 'string', enum: ['pair', 'email', 'client', 'network', 'device'] }

const LAST_LOGIN_AT = orNull(TIME, 'Null if none is known.')
export const LAST_LOGIN = orNull(whole(LAST_LOGIN_FIELDS), 'Null if none is known.')
const SHOWN_SESSION_FIELDS = { id: sessionId, userId: id, ...otherSessionFields }

const FACTS = {
  type: ['object', 'null'],
  additionalProperties: true,
  description: 'The fields that the change concerns; never a secret.',
}

const EVENT_FIELDS = {
  id: { type: 'integer', examples: [1] },
  at: TIME,
  action: { type: 'string', examples: ['user.locked'] },
  target: { ...email, description: 'A pseudonym if the user has been deleted.' },
  targetId: orNull(
    ID,
    'The user that it concerns; null if there is none, or if it has been deleted.',
  ),
  before: FACTS,
  after: FACTS,
}

export const ADDED_USER_FIELDS = { id, email, name, role } satisfies Record<
  keyof UserDetails | 'id',
  object
>
export const SHOWN_USER = named('User', whole(SHOWN_USER_FIELDS))
export const LISTED_USER = named(
  'ListedUser',
  whole({
    ...SHOWN_USER_FIELDS,
    lastLoginAt: LAST_LOGIN_AT,
    secondFactor: { type: 'string', enum: SECOND_FACTORS },
  }),
)

export const SHOWN_SESSION = named('Session', whole(SHOWN_SESSION_FIELDS))

export const STORED_SESSION = named(
  'StoredSession',
  whole({
    ...SHOWN_SESSION_FIELDS,
    endedAt: orNull(TIME, 'Null if it has not been ended; it may have expired.'),
    lastLogin: { ...LAST_LOGIN, description: 'The login before this one. Null if none is known.' },
  }),
)

/** That of a login, or of a refresh. */
export const STORED_TOKEN = named(
  'StoredToken',
  whole({
    ...{ id: ID, sessionId, createdAt: TIME, expiresAt: TIME },
    revokedAt: orNull(TIME, 'When a refresh replaced it, or its session ended.'),
  }),
)

export const DEVICE_WITH_FAILURES = named(
  'DeviceWithFailures',
  whole({
    ...{ id: ID, userId: id, createdAt: TIME, lastUsedAt: TIME, expiresAt: TIME, userAgent },
    ...{ failures: INTEGER, budget: INTEGER, waitsUntil: WAITS_UNTIL },
  }),
)

export const SECOND_FACTOR = named('SecondFactor', whole(FACTOR_FIELDS))
export const RECOVERY_CODE = named(
  'RecoveryCode',
  whole({ usedAt: orNull(TIME, 'Null if it is still good.') }),
)

const SCOPE = named(
  'Scope',
  whole({
    scope: SCOPE_NAME,
    digest: DIGEST,
    maxFailures: { ...INTEGER, description: 'In 15 minutes.' },
    maxDailyFailures: orNull(INTEGER, 'Null if there is no limit for the day.'),
    failures: { ...INTEGER, description: 'In the current 15 minutes.' },
    budget: { ...INTEGER, description: 'Failures that the current 15 minutes allow.' },
    pending: { ...INTEGER, description: 'Attempts in progress.' },
    windowEndsAt: orNull(TIME),
    dailyFailures: { ...INTEGER, description: 'One is forgiven every 15 minutes.' },
    dayEndsAt: orNull(TIME, 'When the last of them is forgiven.'),
    blockedUntil: orNull(TIME),
    waitsUntil: WAITS_UNTIL,
  }),
)

const THROTTLE_FIELDS = {
  scopes: {
    ...listOf(SCOPE),
    description: 'In the order pair, email, client, network; only what was asked for.',
  },
  clients: orNull(
    whole({ clients: INTEGER, waiting: INTEGER, waitsUntil: WAITS_UNTIL }),
    'The clients that have failed with the email; null without an email.',
  ),
}
export const THROTTLE = named('Throttle', whole(THROTTLE_FIELDS))
export const FOUND_THROTTLE = named(
  'FoundThrottle',
  whole({
    email: orNull(email, 'Null without an email.'),
    client: orNull(ip, 'Null without a client.'),
    ...THROTTLE_FIELDS,
  }),
)

export const THROTTLE_LIST = named(
  'ThrottleList',
  whole({
    waiting: {
      ...whole({ email: INTEGER, client: INTEGER, network: INTEGER }),
      description: 'How many must wait: up to 1,000 users, and 1,000 clients and networks.',
    },
    emails: {
      type: 'array',
      description: 'Users that must wait, the most failures for the day first.',
      items: whole({
        email,
        digest: DIGEST,
        ...{ failures: INTEGER, dailyFailures: INTEGER, clients: INTEGER },
        waitsUntil: WAITS_UNTIL,
      }),
    },
    clients: {
      type: 'array',
      description: 'Clients and networks, the most failures first.',
      items: whole({
        ...{ scope: SCOPE_NAME, digest: DIGEST, failures: INTEGER, waitsUntil: WAITS_UNTIL },
      }),
    },
  }),
)

export const EXPLANATION = named(
  'Explanation',
  whole({
    ...SHOWN_USER_FIELDS,
    hashCost: orNull(INTEGER, 'Null if the stored hash cannot be used.'),
    factors: listOf(SECOND_FACTOR),
    recoveryCodesLeft: INTEGER,
    isSecondFactorDemanded: {
      type: 'boolean',
      description: 'By `SECOND_FACTOR_ROLES`.',
      examples: [false],
    },
    liveSessions: INTEGER,
    lastLoginAt: LAST_LOGIN_AT,
    devices: listOf(DEVICE_WITH_FAILURES),
    client: orNull(ip, 'The address that was asked for.'),
    verdict: {
      ...object(
        {
          kind: {
            type: 'string',
            enum: [
              ...['must-wait', 'can-log-in', 'inactive', 'locked', 'unreachable-email'],
              ...['unusable-hash', 'temporary-password-ended', 'must-change-password'],
              ...['must-set-up-second-factor', 'only-known-devices', 'too-many-guesses'],
            ],
          },
          until: {
            ...TIME,
            description: 'Only if `locked`, `must-wait` or `must-change-password`.',
          },
          at: { ...TIME, description: 'Only if `temporary-password-ended`.' },
          because: SCOPE,
        },
        ['kind'],
      ),
      description:
        'What the right password and code would lead to, on a device that is not known. `because` is the scope that must wait.',
    },
    throttle: THROTTLE,
  }),
)

export const AUDIT_EVENT = named(
  'AuditEvent',
  whole({
    ...EVENT_FIELDS,
    by: object(
      {
        kind: { type: 'string', enum: ['user', 'token', 'person'] },
        name: { type: 'string', examples: ['registration'] },
        host: ip,
        id: { ...id, description: 'Of a person at the console, until it is deleted.' },
      },
      ['kind', 'name', 'host'],
    ),
  }),
)

export const EVENT_OF_USER = named('EventOfUser', whole(EVENT_FIELDS))
