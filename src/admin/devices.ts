// devices list|revoke
import { Command } from 'commander'
import { type Context, type JsonOption, printList } from './context.ts'
import { parseEmail, parseId } from './input/values.ts'
import { revokeDevice } from './operations/sessions.ts'
import { requireUser } from './operations/users.ts'
import { timeText } from './terminal/layout.ts'
import { withStore } from './with-store.ts'

export function devicesCommand(context: Context): Command {
  const { terminal } = context
  const devices = new Command('devices').description('list and revoke the known devices of a user')

  devices
    .command('list')
    .description('list the known devices of a user: browsers with their own budget of failures')
    .argument('<email>', 'email of the user', parseEmail)
    .option('--json', 'print JSON')
    .action((email: string, options: JsonOption) =>
      withStore(context, async ({ store, admin }) => {
        const user = await requireUser(admin, email)
        const known = await store.devices.list(user.id, admin.clock())
        const listed = await printList(context, [known], options, device => ({
          id: device.id,
          'first seen': timeText(device.createdAt),
          'last used': timeText(device.lastUsedAt),
          expires: timeText(device.expiresAt),
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
      withStore(context, async ({ admin }) => {
        await revokeDevice(admin, id)
        terminal.announce('admin.device_revoked', { deviceId: id }, `Revoked device ${id}.`)
      }),
    )

  return devices
}
