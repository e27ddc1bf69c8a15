// PUT …/password, PUT and DELETE …/lock: changes of one user.
import { WrongUse } from '../../../admin/failures.ts'
import { endParser } from '../../../admin/input/times.ts'
import { hashParser, parsePassword } from '../../../admin/input/values.ts'
import type { GivenPassword } from '../../../admin/operations/new-password.ts'
import {
  DEFAULT_END,
  generatePassword,
  parseValid,
} from '../../../admin/operations/temporary-password.ts'
import { FOR_EVER, lockUser, setPassword, unlockUser } from '../../../admin/operations/users.ts'
import { named, object, whole } from '../../openapi/operation.ts'
import { TIME } from '../../openapi/schemas.ts'
import { adminRoute, type Parsed, parseField, type RouteDeps, userOf } from '../route.ts'

export const SECRET_FIELDS = {
  password: { parse: parsePassword, examples: ['correct horse battery'] },
  passwordHash: {
    description: 'A bcrypt hash (`$2a`, `$2b`, `$2y`) of cost 4 up to `BCRYPT_COST`.',
  },
  allowWeak: {
    type: 'boolean',
    description: 'Also set a `password` that is short, common or personal.',
  },
  generate: { type: 'boolean', description: 'Generate a password, and answer it once.' },
  temporary: {
    type: 'boolean',
    description: 'It is good for setting a new one only, once. By default true if it is generated.',
  },
  valid: {
    description:
      'How long a temporary password is valid: `1h` to `30d`, or a time. By default 72 hours.',
    examples: ['72h'],
    parse: parseValid('valid'),
  },
} as const

/** Sent for a generated or temporary password. */
export const SECRET_SHOWN = {
  password: { type: 'string', examples: ['4kf2-9wpx-7m0c-q3hd-e8ts'] },
  temporaryUntil: TIME,
}

type SecretBody = Parsed<typeof SECRET_FIELDS>
/** `shown` is for the answer. */
type Secret = { given: GivenPassword; shown: { password?: string; temporaryUntil?: Date } }

/** The password of a request, its hash from another system, or a generated one: exactly one must be asked for. */
export function secretOf(body: SecretBody, { bcryptCost, clock }: RouteDeps): Secret {
  const { password, allowWeak, generate: isGenerated = false } = body
  const passwordHash =
    body.passwordHash === undefined
      ? undefined
      : parseField('passwordHash', body.passwordHash, hashParser('passwordHash', bcryptCost))
  const wanted = [password !== undefined, passwordHash !== undefined, isGenerated]
  if (wanted.filter(Boolean).length !== 1) {
    throw new WrongUse('Send one of password, passwordHash and generate.', 'password')
  }
  const temporaryUntil = endOf(body, clock())
  const end = temporaryUntil ? { temporaryUntil } : {}
  if (passwordHash !== undefined) return { given: { passwordHash, ...end }, shown: end }
  if (password !== undefined) return { given: { password, allowWeak, ...end }, shown: end }
  const generated = generatePassword()
  return {
    given: { password: generated, isGenerated, ...end },
    shown: { password: generated, ...end },
  }
}

/** A generated password is temporary unless the request says otherwise. */
function endOf({ generate = false, temporary = generate, valid }: SecretBody, now: Date) {
  if (temporary) return (valid ?? DEFAULT_END)(now)
  if (valid) throw new WrongUse('valid is for temporary passwords.', 'valid')
  return null
}

export const passwordRoute = adminRoute(
  {
    operationId: 'setPassword',
    summary: 'Set the password of a user',
    description: 'Send one of `password`, `passwordHash` and `generate`. Ends all sessions.',
    body: SECRET_FIELDS,
    data: named('SetPassword', object(SECRET_SHOWN, [])),
  },
  async (deps, { named, body }) => {
    const { given, shown } = secretOf(body, deps)
    await setPassword(deps, await userOf(deps, named), given)
    return shown
  },
)

export const lockRoute = adminRoute(
  {
    operationId: 'lockUser',
    summary: 'Lock a user',
    description: 'Ends all sessions.',
    body: {
      until: {
        description:
          'A time, in UTC if it has no zone, or a duration such as `90m`, `2h` or `30d`. Without it the lock does not end.',
        examples: ['2030-01-31T12:00'],
        parse: endParser('until'),
      },
    },
    data: named('Lock', whole({ until: TIME })),
  },
  async (deps, { named, body }) => {
    const until = body.until?.(deps.clock()) ?? FOR_EVER
    await lockUser(deps, await userOf(deps, named), until)
    return { until }
  },
)

export const unlockRoute = adminRoute(
  {
    operationId: 'unlockUser',
    summary: 'Unlock a user',
    description: 'Clears the lock, failures and blocks of the email.',
  },
  async (deps, { named }) => unlockUser(deps, await userOf(deps, named)),
)
