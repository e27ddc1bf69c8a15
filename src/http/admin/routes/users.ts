// /admin/v1/users: lists, shows, adds, changes and deletes users.
import { userNotFound, WrongUse } from '../../../admin/failures.ts'
import { explainUser } from '../../../admin/operations/explain-user.ts'
import { listUsers, toShown } from '../../../admin/operations/user-list.ts'
import {
  activateUser,
  addUser,
  deactivateUser,
  deleteUser,
  emailTaken,
  requireUser,
  setUser,
} from '../../../admin/operations/users.ts'
import {
  nameParser,
  parseClient,
  parseNewEmail,
  parseText,
  roleFilterParser,
  roleParser,
} from '../../../admin/terminal/arguments.ts'
import { DEFAULT_ROLE, USER_STATES } from '../../../domain/user.ts'
import { bodyOf, InvalidInput, read, readBoolean, readLimit, readRequired } from '../input.ts'
import { type Handler, userOf } from '../route.ts'
import { SECRET_FIELDS, secretOf } from '../secret.ts'

const parseName = nameParser('name')
const parseRole = roleParser('role')

export const usersRoute: Handler = async (deps, _request, query) => {
  const search = read(query, 'search', parseText('search', 254))
  const role = read(query, 'role', roleFilterParser('role'))
  const state = read(query, 'state', parseState)
  const filter = { ...(search && { search }), ...(role && { role }), ...(state && { state }) }
  // As it is: an email that was inserted by SQL may be in another form than logins look up.
  const after = read(query, 'after', typed => typed) ?? ''
  return { data: await listUsers(deps, filter, { after, limit: readLimit(query) }) }
}

function parseState(typed: string) {
  const state = USER_STATES.find(known => known === typed)
  if (state) return state
  throw new WrongUse(`state is one of ${USER_STATES.join(', ')}.`)
}

export const userRoute: Handler = async (deps, request, query) => {
  const client = read(query, 'client', parseClient('client')) ?? null
  const user = await userOf(deps, request)
  return { data: await explainUser(deps, user.email, client) }
}

/** Refused before the hash if the email is taken: whether the password is the user's must not show. */
export const addUserRoute: Handler = async (deps, request) => {
  const body = bodyOf(request, ['email', 'name', 'role', ...SECRET_FIELDS])
  const wanted = {
    email: readRequired(body, 'email', parseNewEmail),
    name: readRequired(body, 'name', parseName),
    role: read(body, 'role', parseRole) ?? DEFAULT_ROLE,
  }
  const { password, hashPassword, temporaryUntil, shown } = secretOf(body, deps)
  const { email } = wanted
  if (await deps.store.users.findByEmail(email)) throw emailTaken(email)
  const admin = { ...deps, hashPassword }
  await addUser(admin, wanted, password, temporaryUntil)
  const user = toShown(await requireUser(admin, email), deps.clock())
  return { data: { user, ...shown }, isNew: true }
}

/** Not atomic if `isActive` comes with other fields: these are changed first, in a transaction of their own. */
export const changeUserRoute: Handler = async (deps, request) => {
  const body = bodyOf(request, ['email', 'name', 'role', 'isActive'])
  const newEmail = read(body, 'email', parseNewEmail)
  const name = read(body, 'name', parseName)
  const role = read(body, 'role', parseRole)
  const isActive = readBoolean(body, 'isActive')
  const fields = {
    ...(newEmail && { email: newEmail }),
    ...(name && { name }),
    ...(role && { role }),
  }
  const hasFields = Object.keys(fields).length > 0
  if (!hasFields && isActive === undefined) throw new InvalidInput('There is nothing to change.')
  const user = await userOf(deps, request)
  if (hasFields) await setUser(deps, user, fields)
  if (isActive === true) await activateUser(deps, user)
  if (isActive === false) await deactivateUser(deps, user)
  const changed = await deps.store.users.findById(user.id)
  if (!changed) throw userNotFound(user.email)
  return { data: { user: toShown(changed, deps.clock()) } }
}

export const deleteUserRoute: Handler = async (deps, request) => {
  const user = await userOf(deps, request)
  await deleteUser(deps, user)
  return { data: {} }
}
