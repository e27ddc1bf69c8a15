// PUT …/password, PUT and DELETE …/lock: changes of one user.
import { userNotFound } from '../../../admin/failures.ts'
import { FOR_EVER, lockUser, setPassword, unlockUser } from '../../../admin/operations/users.ts'
import { parseTime } from '../../../admin/terminal/times.ts'
import { bodyOf, read } from '../input.ts'
import { type Handler, userOf } from '../route.ts'
import { SECRET_FIELDS, secretOf } from '../secret.ts'

export const passwordRoute: Handler = async (deps, request) => {
  const { password, hashPassword } = secretOf(bodyOf(request, SECRET_FIELDS), deps)
  const { user, admin } = await userOf(deps, request)
  await setPassword({ ...admin, hashPassword }, user.email, password)
  return { data: {} }
}

export const lockRoute: Handler = async (deps, request) => {
  const body = request.body === undefined ? {} : bodyOf(request, ['until'])
  const until = read(body, 'until', parseTime('until')) ?? FOR_EVER
  const { user, admin } = await userOf(deps, request)
  await lockUser(admin, user.email, until)
  return { data: { until } }
}

export const unlockRoute: Handler = async (deps, request) => {
  const { user, admin } = await userOf(deps, request)
  if (!(await unlockUser(admin, user.email))) throw userNotFound(user.email)
  return { data: {} }
}
