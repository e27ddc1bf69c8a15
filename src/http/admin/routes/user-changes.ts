// PUT …/password, PUT and DELETE …/lock: changes of one user.
import { FOR_EVER, lockUser, setPassword, unlockUser } from '../../../admin/operations/users.ts'
import { parseTime } from '../../../admin/terminal/times.ts'
import { bodyOf, read } from '../input.ts'
import { type Handler, userOf } from '../route.ts'
import { SECRET_FIELDS, secretOf } from '../secret.ts'

export const passwordRoute: Handler = async (deps, request) => {
  const secret = secretOf(bodyOf(request, SECRET_FIELDS), deps)
  const { password, hashPassword, temporaryUntil, shown } = secret
  const user = await userOf(deps, request)
  await setPassword({ ...deps, hashPassword }, user, password, temporaryUntil)
  return { data: shown }
}

export const lockRoute: Handler = async (deps, request) => {
  const body = request.body === undefined ? {} : bodyOf(request, ['until'])
  const until = read(body, 'until', parseTime('until')) ?? FOR_EVER
  const user = await userOf(deps, request)
  await lockUser(deps, user, until)
  return { data: { until } }
}

export const unlockRoute: Handler = async (deps, request) => {
  const user = await userOf(deps, request)
  await unlockUser(deps, user)
  return { data: {} }
}
