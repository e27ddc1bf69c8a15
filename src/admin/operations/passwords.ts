// Adds a user, or sets the password of one: given, generated, or its hash from another system.
import { randomUUID } from 'node:crypto'
import { DEFAULT_ROLE } from '../../domain/user.ts'
import { named, object } from '../../http/openapi/operation.ts'
import { TIME } from '../../http/openapi/schemas.ts'
import { emailTaken, userNotFound, WrongUse } from '../../system/failures.ts'
import { ADDED_USER_FIELDS } from '../api/schemas.ts'
import { parseHash, parsePassword } from '../input/values.ts'
import { timeText } from '../layout.ts'
import { type Input, operation } from '../operation.ts'
import type { AdminDeps } from './deps.ts'
import { type GivenPassword, hashNewPassword } from './new-password.ts'
import { DEFAULT_END, generatePassword, parseValid } from './temporary-password.ts'
import { findUser } from './user.ts'
import { IDENTITY_FIELDS } from './users.ts'

const PASSWORD_FIELDS = {
  password: {
    about: 'The password.',
    parse: () => parsePassword,
    examples: ['correct horse battery'],
    only: 'route',
  },
  passwordHash: {
    about: 'A bcrypt hash (`$2a`, `$2b`, `$2y`) of cost 4 up to `BCRYPT_COST`.',
    only: 'route',
  },
  allowWeak: {
    type: 'boolean',
    about: 'Also set a password of 8 characters or more that breaks a rule.',
  },
  generate: { type: 'boolean', about: 'Generate a temporary password, and print it once.' },
  temporary: {
    type: 'boolean',
    about: 'It is good for setting a new one only, once. By default true if it is generated.',
  },
  permanent: { type: 'boolean', about: 'A generated password is not temporary.', only: 'command' },
  valid: {
    about: 'How long a temporary password is valid: `1h` to `30d`, or a time. By default 72 hours.',
    examples: ['72h'],
    input: {
      label: 'Valid for',
      choices: { '24h': '1 day', '72h': '3 days', '168h': '7 days' },
      initial: '72h',
    },
    parse: parseValid,
  },
} as const

const SEND_ONE = 'Send one of `password`, `passwordHash` and `generate`.'

/** Sent for a generated or temporary password. */
export const PASSWORD_SHOWN = {
  password: { type: 'string', examples: ['4kf2-9wpx-7m0c-q3hd-e8ts'] },
  temporaryUntil: TIME,
}

type PasswordInput = Omit<Input<typeof PASSWORD_FIELDS>, 'named'>
/** `shown` is for the answer. */
type Secret = { given: GivenPassword; shown: { password?: string; temporaryUntil?: Date } }

/** Exactly one of the three must be asked for. A generated one is temporary unless it is said to be permanent. */
function secretOf(input: PasswordInput, { bcryptCost, clock }: AdminDeps): Secret {
  const { password, allowWeak, generate: isGenerated = false, permanent, valid } = input
  const { temporary = isGenerated && !permanent } = input
  const passwordHash = input.passwordHash && parseHash(input.passwordHash, bcryptCost)
  const wanted = [password !== undefined, passwordHash !== undefined, isGenerated]
  if (wanted.filter(Boolean).length !== 1) {
    throw new WrongUse(SEND_ONE.replaceAll('`', ''), 'password')
  }
  if (valid && !temporary)
    throw new WrongUse('valid is for temporary passwords: add temporary or generate.', 'valid')
  const end = temporary ? { temporaryUntil: (valid ?? DEFAULT_END)(clock()) } : {}
  if (passwordHash !== undefined) return { given: { passwordHash, ...end }, shown: end }
  if (password !== undefined) return { given: { password, allowWeak, ...end }, shown: end }
  const generated = generatePassword()
  return {
    given: { password: generated, isGenerated, ...end },
    shown: { ...end, password: generated },
  }
}

export function describeEnd({ temporaryUntil }: Secret['shown']): string {
  return temporaryUntil === undefined
    ? ''
    : ` The password is temporary: until ${timeText(temporaryUntil)} it can be used once, to set a new one.`
}

/** A generated password is alone on its line. */
export const printPassword = ({ password }: { password?: string }) =>
  password ? `${password}\n` : ''

/** Refused before the hash if the email is taken: whether the password is the user's must not show. */
export const addUser = operation(
  {
    command: 'users add',
    event: 'admin.user_added',
    request: 'POST /users',
    summary: 'Add a user',
    description: `Without a role it is \`${DEFAULT_ROLE}\`.`,
    forCallers: SEND_ONE,
    examples: [
      "ann@example.org --name 'Ann Example' --generate",
      "ann@example.org --name 'Ann Example' --role admin --password-stdin < password.txt",
    ],
    fields: {
      ...IDENTITY_FIELDS,
      email: { ...IDENTITY_FIELDS.email, isRequired: true },
      name: { ...IDENTITY_FIELDS.name, isRequired: true },
      ...PASSWORD_FIELDS,
    },
    for: 'administrator',
    form: {
      label: 'Add',
      asks: ['email', 'name', 'role', 'valid'],
      sends: { generate: true },
      needsRecentLogin: ({ role }) => role !== undefined && role !== DEFAULT_ROLE,
      isElsewhere: true,
    },
    argument: 'email',
    isFirst: true,
    status: 201,
    data: named(
      'AddedUser',
      object({ ...ADDED_USER_FIELDS, ...PASSWORD_SHOWN }, ['id', 'email', 'name', 'role']),
    ),
    failures: ['EMAIL_TAKEN'],
  },
  async (deps, { email, name, role = DEFAULT_ROLE, ...input }) => {
    const { users } = deps.store
    const { given, shown } = secretOf(input, deps)
    if (await users.findByEmail(email)) throw emailTaken(email)
    const { passwordHash, change } = await hashNewPassword(deps, given, { email, name })
    const { temporaryUntil = null } = given
    const id = randomUUID()
    const added = { id, email, name, role, passwordHash, temporaryUntil }
    if (!(await users.insert(added, change))) throw emailTaken(email)
    const { password: _, ...end } = shown
    return {
      data: { id, email, name, role, ...shown },
      said: {
        facts: { email, userId: id, role, ...end },
        sentence: `Added ${email} with the role "${role}".${describeEnd(shown)}`,
      },
    }
  },
  printPassword,
)

export const setPassword = operation(
  {
    command: 'users set-password',
    event: 'admin.password_set',
    request: 'PUT /users/:user/password',
    summary: 'Set the password of a user',
    description: 'Ends all sessions. A second factor stays.',
    forCallers: SEND_ONE,
    examples: ['ann@example.org --generate'],
    for: 'helpdesk',
    form: {
      path: 'temporary',
      title: 'Temporary password',
      about:
        'For a forgotten password. It can be used once, to set a new one, and ends all sessions. First make sure of the person that asks for it.',
      label: 'Give a temporary password',
      asks: ['valid'],
      sends: { generate: true },
      helps: ({ verdict: { kind } }) =>
        kind === 'temporary-password-ended' || kind === 'unusable-hash',
      // The caller that gets it could set up a factor of its own.
      isBeyondHelpdesk: ({ isSecondFactorDemanded, factors }) =>
        isSecondFactorDemanded && factors.length === 0,
    },
    fields: PASSWORD_FIELDS,
    data: named(
      'SetPassword',
      object({ email: ADDED_USER_FIELDS.email, ...PASSWORD_SHOWN }, ['email']),
    ),
  },
  async (deps, { named, ...input }) => {
    const { given, shown } = secretOf(input, deps)
    const user = await findUser(deps, named)
    const { id, email } = user
    const { passwordHash, change } = await hashNewPassword(deps, given, user)
    const { temporaryUntil = null } = given
    if (!(await deps.store.users.setPassword(id, passwordHash, change, temporaryUntil))) {
      throw userNotFound(email)
    }
    const { password: _, ...end } = shown
    const sentence = `Set the password of ${email} and ended all sessions.${describeEnd(shown)}`
    return { data: { email, ...shown }, said: { facts: { email, ...end }, sentence } }
  },
  printPassword,
)
