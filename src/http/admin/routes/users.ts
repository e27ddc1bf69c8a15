// /admin/v1/users: lists, shows, adds, changes and deletes users.
import { emailTaken, userNotFound, WrongUse } from '../../../admin/failures.ts'
import {
  nameParser,
  parseNewEmail,
  roleFilterParser,
  roleParser,
  searchParser,
  storedEmailParser,
} from '../../../admin/input/values.ts'
import { explainUser } from '../../../admin/operations/explain-user.ts'
import { listShownUsers, toShownUser } from '../../../admin/operations/user-list.ts'
import {
  activateUser,
  addUser,
  changeUser,
  deactivateUser,
  removeUser,
  requireUser,
} from '../../../admin/operations/users.ts'
import { DEFAULT_ROLE, USER_STATES } from '../../../domain/user.ts'
import { named, object, whole } from '../../openapi/operation.ts'
import { adminRoute, userOf } from '../route.ts'
import {
  CLIENT_FIELD,
  countField,
  EXPLANATION,
  listOf,
  NEXT,
  PAGE_MAX,
  SHOWN_USER,
} from '../schemas.ts'
import { SECRET_FIELDS, SECRET_SHOWN, secretOf } from './user-changes.ts'

const IDENTITY_FIELDS = {
  email: { parse: parseNewEmail, examples: ['kate@example.com'] },
  name: { parse: nameParser('name'), examples: ['Kate'] },
  role: { parse: roleParser('role'), examples: ['editor'] },
}

export const usersRoute = adminRoute(
  {
    operationId: 'listUsers',
    summary: 'List users',
    description: 'Ordered by email. A page may have fewer users than `limit` before the end.',
    query: {
      search: {
        description: 'A part of the email or name.',
        parse: searchParser('search'),
      },
      role: { parse: roleFilterParser('role') },
      state: { enum: USER_STATES },
      limit: countField('limit'),
      after: {
        description: '`next` of the previous page.',
        parse: storedEmailParser('after'),
      },
    },
    data: named('UserPage', whole({ users: listOf(SHOWN_USER), next: NEXT })),
  },
  (deps, { query: { limit = PAGE_MAX, after = '', ...filter } }) =>
    listShownUsers(deps, filter, { after, limit }),
)

export const userRoute = adminRoute(
  {
    operationId: 'getUser',
    summary: 'Get a user, and why the user can or cannot log in',
    description: 'With `client`, it also tells whether a login from there would have to wait.',
    query: { client: CLIENT_FIELD },
    data: EXPLANATION,
  },
  async (deps, { named, query: { client = null } }) => {
    const { email } = await userOf(deps, named)
    return explainUser(deps, email, client)
  },
)

/** Refused before the hash if the email is taken: whether the password is the user's must not show. */
export const addUserRoute = adminRoute(
  {
    operationId: 'addUser',
    summary: 'Add a user',
    description: `Send one of \`password\`, \`passwordHash\` and \`generate\`. Without \`role\` it is \`${DEFAULT_ROLE}\`.`,
    body: { ...IDENTITY_FIELDS, ...SECRET_FIELDS },
    required: ['email', 'name'],
    status: 201,
    data: named('AddedUser', object({ user: SHOWN_USER, ...SECRET_SHOWN }, ['user'])),
    failures: ['EMAIL_TAKEN'],
  },
  async (deps, { body }) => {
    const { email, name, role = DEFAULT_ROLE } = body
    const { given, shown } = secretOf(body, deps)
    if (await deps.store.users.findByEmail(email)) throw emailTaken(email)
    await addUser(deps, { email, name, role }, given)
    return { user: toShownUser(await requireUser(deps, email), deps.clock()), ...shown }
  },
)

/** It is not atomic if `isActive` comes with other fields: these are changed first, in their own transaction. */
export const changeUserRoute = adminRoute(
  {
    operationId: 'changeUser',
    summary: 'Change a user',
    description: 'Changes the fields that are sent. `isActive: false` ends all sessions.',
    body: { ...IDENTITY_FIELDS, isActive: { type: 'boolean', examples: [true] } },
    data: named('ChangedUser', whole({ user: SHOWN_USER })),
    failures: ['EMAIL_TAKEN'],
  },
  async (deps, { named, body: { isActive, ...fields } }) => {
    const hasFields = Object.keys(fields).length > 0
    if (!hasFields && isActive === undefined) throw new WrongUse('There is nothing to change.')
    const user = await userOf(deps, named)
    if (hasFields) await changeUser(deps, user, fields)
    if (isActive === true) await activateUser(deps, user)
    if (isActive === false) await deactivateUser(deps, user)
    const changed = await deps.store.users.findById(user.id)
    if (!changed) throw userNotFound(user.email)
    return { user: toShownUser(changed, deps.clock()) }
  },
)

export const deleteUserRoute = adminRoute(
  {
    operationId: 'deleteUser',
    summary: 'Delete a user',
    description: 'With all sessions and devices.',
  },
  async (deps, { named }) => removeUser(deps, await userOf(deps, named)),
)
