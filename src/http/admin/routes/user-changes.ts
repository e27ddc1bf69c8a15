// PUT …/password, PUT and DELETE …/lock: changes of one user.
import { WrongUse } from '../../../admin/failures.ts'
import { endParser } from '../../../admin/input/times.ts'
import { hashParser, parsePassword } from '../../../admin/input/values.ts'
import type { AdminDeps } from '../../../admin/operations/deps.ts'
import { FOR_EVER, lockUser, setPassword, unlockUser } from '../../../admin/operations/users.ts'
import { TIME } from '../../openapi/schemas.ts'
import { adminRoute, parseField, type RouteDeps, userOf } from '../route.ts'
import { whole } from '../schemas.ts'

export const SECRET_FIELDS = {
  password: { parse: parsePassword, examples: ['correct horse battery'] },
  passwordHash: {
    description: 'A bcrypt hash (`$2a`, `$2b`, `$2y`) of cost 4 up to `BCRYPT_COST`.',
  },
}

type Secret = {
  /** Empty if the hash is given. */
  password: string
  hashPassword: AdminDeps['hashPassword']
}

/** The password of a request, or its hash from another system: exactly one must be given. */
export function secretOf(
  { password, passwordHash }: { password?: string; passwordHash?: string },
  { bcryptCost, hashPassword }: RouteDeps,
): Secret {
  const parseHash = hashParser('passwordHash', bcryptCost)
  const given =
    passwordHash === undefined ? undefined : parseField('passwordHash', passwordHash, parseHash)
  if (password !== undefined && given === undefined) return { password, hashPassword }
  if (given !== undefined && password === undefined) {
    return { password: '', hashPassword: async () => given }
  }
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
    const { password, hashPassword } = secretOf(body, deps)
    const user = await userOf(deps, named)
    await setPassword({ ...deps, hashPassword }, user, password)
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
