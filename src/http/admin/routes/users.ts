// /admin/v1/users: adds, changes and deletes users.
import { Refusal } from '../../../admin/failures.ts'
import {
  activateUser,
  addUser,
  deactivateUser,
  deleteUser,
  emailTaken,
  requireUser,
} from '../../../admin/operations/users.ts'
import { parseNewEmail, parseText } from '../../../admin/terminal/arguments.ts'
import type { User } from '../../../domain/user.ts'
import { bodyOf, read, readBoolean, readRequired } from '../input.ts'
import { type Handler, onEnded, toUserObject, userOf } from '../route.ts'
import { SECRET_FIELDS, secretOf } from '../secret.ts'

const parseName = parseText('name', 100)
const parseRole = parseText('role', 50)

/** A repetition gets the user that exists. Another user's email is never taken over. */
export const addUserRoute: Handler = async (deps, request) => {
  const body = bodyOf(request, ['email', 'name', 'role', ...SECRET_FIELDS])
  const wanted = {
    email: readRequired(body, 'email', parseNewEmail),
    name: readRequired(body, 'name', parseName),
    role: read(body, 'role', parseRole) ?? 'user',
  }
  const secret = secretOf(body, deps)
  const { email, name, role } = wanted
  const toExisting = async (user: User) => {
    const isSame =
      user.name === name && user.role === role && (await secret.matches(user.passwordHash))
    if (!isSame) throw emailTaken(email)
    return { data: { user: toUserObject(user) } }
  }

  const earlier = await deps.store.findUserByEmail(email)
  if (earlier) return toExisting(earlier)
  const admin = { ...deps, hashPassword: secret.hashPassword }
  try {
    await addUser(admin, wanted, secret.password)
  } catch (error) {
    if (!(error instanceof Refusal) || error.reason !== 'taken') throw error
    return toExisting(await requireUser(admin, email))
  }
  return { data: { user: toUserObject(await requireUser(admin, email)) }, isNew: true }
}

export const changeUserRoute: Handler = async (deps, request) => {
  const body = bodyOf(request, ['isActive'])
  const isActive = readBoolean(body, 'isActive')
  const { email } = await userOf(deps, request)
  if (isActive === true) await activateUser(deps, email)
  if (isActive === false) await deactivateUser(deps, email, onEnded)
  return { data: { user: toUserObject(await requireUser(deps, email)) } }
}

export const deleteUserRoute: Handler = async (deps, request) => {
  const { email } = await userOf(deps, request)
  await deleteUser(deps, email, onEnded)
  return { data: {} }
}
