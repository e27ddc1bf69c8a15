// PUT …/password, PUT and DELETE …/lock: changes of one user.
import { FOR_EVER, lockUser, setPassword, unlockUser } from '../../../admin/operations/users.ts'
import { parseTime } from '../../../admin/terminal/arguments.ts'
import { bodyOf, read } from '../input.ts'
import { type Handler, onEnded, userOf } from '../route.ts'
import { SECRET_FIELDS, secretOf } from '../secret.ts'

export const passwordRoute: Handler = async (deps, request) => {
  const { password, hashPassword } = secretOf(bodyOf(request, SECRET_FIELDS), deps)
  const { email } = await userOf(deps, request)
  await setPassword({ ...deps, hashPassword }, email, password, onEnded)
  return { data: {} }
}

export const lockRoute: Handler = async (deps, request) => {
  const body = request.body === undefined ? {} : bodyOf(request, ['until'])
  const until = read(body, 'until', parseTime('until')) ?? FOR_EVER
  const { email } = await userOf(deps, request)
  await lockUser(deps, email, until, onEnded)
  return { data: {} }
}

export const unlockRoute: Handler = async (deps, request) => {
  const { email } = await userOf(deps, request)
  await unlockUser(deps, email)
  return { data: {} }
}
