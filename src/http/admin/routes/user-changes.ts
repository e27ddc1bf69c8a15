// PUT …/password, PUT and DELETE …/lock: changes of one user.
import { WrongUse } from '../../../admin/failures.ts'
import { endParser } from '../../../admin/input/times.ts'
import { hashParser, parsePassword } from '../../../admin/input/values.ts'
import type { GivenPassword } from '../../../admin/operations/new-password.ts'
import { FOR_EVER, lockUser, setPassword, unlockUser } from '../../../admin/operations/users.ts'
import { TIME } from '../../openapi/schemas.ts'
import { adminRoute, type Parsed, parseField, type RouteDeps, userOf } from '../route.ts'
import { whole } from '../schemas.ts'

export const SECRET_FIELDS = {
  password: { parse: parsePassword, examples: ['correct horse battery'] },
  passwordHash: {
    description: 'A bcrypt hash (`$2a`, `$2b`, `$2y`) of cost 4 up to `BCRYPT_COST`.',
  },
  allowWeak: {
    type: 'boolean',
    description: 'Also set a `password` that is short, common or personal.',
  },
} as const

/** The password of a request, or its hash from another system: exactly one must be given. */
export function secretOf(
  { password, passwordHash, allowWeak }: Parsed<typeof SECRET_FIELDS>,
  { bcryptCost }: RouteDeps,
): GivenPassword {
  const parseHash = hashParser('passwordHash', bcryptCost)
  const hash =
    passwordHash === undefined ? undefined : parseField('passwordHash', passwordHash, parseHash)
  if (password !== undefined && hash === undefined) return { password, allowWeak }
  if (hash !== undefined && password === undefined) return { passwordHash: hash }
  throw new WrongUse('Send either password or passwordHash.', 'password')
}

export const passwordRoute = adminRoute(
  {
    operationId: 'setPassword',
    summary: 'Set the password of a user',
    description: 'Send either `password` or `passwordHash`. Ends all sessions.',
    body: SECRET_FIELDS,
  },
  async (deps, { named, body }) => {
    const given = secretOf(body, deps)
    await setPassword(deps, await userOf(deps, named), given)
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
    data: whole({ until: TIME }),
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
