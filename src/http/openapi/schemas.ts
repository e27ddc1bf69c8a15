// The schemas that several operations share.
import type { SessionUser } from '../../domain/session.ts'
import { UUID_PATTERN } from '../../system/identifiers.ts'
import { header, named, text, whole } from './operation.ts'

export const NO_DATA = named('NoData', { type: 'object', description: 'Empty.' })

/** Every id. In an address or query, capital letters are accepted too. */
export const ID = {
  type: 'string',
  format: 'uuid',
  maxLength: 36,
  examples: ['0b7f7c3e-5d0c-4f0a-9a51-2f8f0f1f6a10'],
}
export const TIME = { type: 'string', format: 'date-time', examples: ['2026-03-01T09:30:00.000Z'] }

export const CSRF_TOKEN_HEADER = {
  'X-CSRF-Token': header('Only with a session cookie. Send it with each change that uses it.'),
}
export const CLEARED_COOKIE_HEADER = {
  'Set-Cookie': header('Deletes the session cookie, if it has authenticated the request.'),
}

export const USER_FIELDS = {
  id: { ...ID, description: 'Never changes. It is `sub` in the access token.' },
  email: { type: 'string', examples: ['kate@example.com'] },
  name: { type: 'string', examples: ['Kate'] },
  role: { type: 'string', examples: ['user'] },
  createdAt: TIME,
} satisfies Record<keyof SessionUser, object>

export const USER = named('User', whole(USER_FIELDS))

export const SESSION_FIELDS = {
  id: { ...ID, description: 'It is `sid` in the access token.' },
  createdAt: { ...TIME, description: 'The time of the login.' },
  lastUsedAt: TIME,
  expiresAt: { ...TIME, description: 'The session may end earlier, if it is not used.' },
  userAgent: text('The `User-Agent` of the login, or empty.', { examples: ['curl/8.5.0'] }),
  ip: { type: 'string', examples: ['203.0.113.9'] },
  amr: {
    type: 'array',
    items: { type: 'string', enum: ['pwd', 'otp', 'pop', 'mfa'] },
    description: 'How the user logged in (RFC 8176); `mfa`: with a second factor.',
  },
}

/** A parameter of an address or query. */
export const SESSION_ID = { type: 'string', pattern: UUID_PATTERN, examples: ID.examples }

export const LAST_LOGIN_FIELDS = {
  at: TIME,
  ip: { ...SESSION_FIELDS.ip, description: 'Removed, and then empty, after 180 days.' },
  userAgent: {
    ...SESSION_FIELDS.userAgent,
    description: 'The `User-Agent` header of the login, or empty; removed after 180 days.',
  },
  failuresSince: {
    type: 'integer',
    description:
      'Attempts between the two logins that were rejected after their password was checked. Those that got a 429 or 503 are not counted.',
    examples: [0],
  },
  guessesSince: {
    type: 'integer',
    description:
      'Wrong codes or passkeys that came with the right password before the login of the session: another person may know the password.',
    examples: [0],
  },
}

const JWT = { type: 'string', examples: ['eyJhbGciOiJFUzI1NiIs…'] }

/** The data of a login. */
export const TOKENS = {
  user: USER,
  accessToken: { ...JWT, description: 'Other services verify it with the published keys.' },
  refreshToken: { ...JWT, description: 'It is valid for 7 days. Each refresh replaces it.' },
  expiresIn: { type: 'integer', description: 'Of the access token, in seconds.', examples: [3600] },
}

/** The whole body may be missing if there is another credential. */
export const REFRESH_TOKEN_BODY = {
  ...whole({ refreshToken: JWT }),
  description: 'Leave it out to use another credential.',
}
