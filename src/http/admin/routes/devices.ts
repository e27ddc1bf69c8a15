// Known devices: lists those of a user, revokes one.
import { revokeDevice } from '../../../admin/operations/sessions.ts'
import { parseId } from '../../../admin/terminal/arguments.ts'
import { paramOf } from '../input.ts'
import { type Handler, userOf } from '../route.ts'

export const devicesRoute: Handler = async (deps, request) => {
  const user = await userOf(deps, request)
  return { data: { devices: await deps.store.devices.list(user.id, deps.clock()) } }
}

export const revokeDeviceRoute: Handler = async (deps, request) => {
  await revokeDevice(deps, parseId(paramOf(request, 'id')))
  return { data: {} }
}
