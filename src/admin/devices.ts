// devices list|revoke
import { Command } from 'commander'
import { isUuid } from '../identifiers.ts'
import { type Context, type JsonOption, printList } from './context.ts'
import { Failure } from './failures.ts'
import { parseEmail, parseId } from './terminal/arguments.ts'
import { formatTime } from './terminal/layout.ts'
import { requireUser, withStore } from './with-store.ts'

export function devicesCommand(context: Context): Command {
  const { terminal } = context
  const devices = new Command('devices').description('list and revoke the known devices of a user')

  devices
    .command('list')
    .description('list the known devices of a user: browsers with their own budget of failures')
    .argument('<email>', 'email of the user', parseEmail)
    .option('--json', 'print JSON')
    .action((email: string, options: JsonOption) =>
      withStore(context, async ({ store, clock }) => {
        const user = await requireUser(store, email)
        const known = await store.listDevices(user.id, clock())
        const listed = await printList(context, [known], options, device => ({
          id: device.id,
          'first seen': formatTime(device.createdAt),
          'last used': formatTime(device.lastUsedAt),
          expires: formatTime(device.expiresAt),
          'user agent': device.userAgent,
        }))
        if (listed === 0 && !options.json) terminal.say(`${email} has no known devices.`)
      }),
    )

  devices
    .command('revoke')
    .description('revoke a known device: its browser becomes an unknown one')
    .argument('<id>', 'id of the device', parseId)
    .action((id: string) =>
      withStore(context, async ({ store }) => {
        if (!isUuid(id) || !(await store.revokeDevice(id))) {
          throw new Failure(`There is no device ${id}.`)
        }
        terminal.announce('admin.device_revoked', { deviceId: id }, `Revoked device ${id}.`)
      }),
    )

  return devices
}
