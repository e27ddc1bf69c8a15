// devices list|revoke
import { Command } from 'commander'
import { isUuid } from '../identifiers.ts'
import { type Context, type JsonOption, printList } from './context.ts'
import { Failure } from './failures.ts'
import { toEmail, toId } from './terminal/arguments.ts'
import { toTime } from './terminal/layout.ts'
import { demandUser } from './users/state.ts'
import { withStore } from './with-store.ts'

export function devicesCommand(context: Context): Command {
  const { terminal, clock } = context
  const devices = new Command('devices').description('see and forget the browsers of a user')

  devices
    .command('list')
    .description('list the browsers that keep an attempt budget of their own')
    .argument('<email>', 'e-mail of the user', toEmail)
    .option('--json', 'print JSON')
    .action((email: string, options: JsonOption) =>
      withStore(context, async ({ store }) => {
        const user = await demandUser(store, email)
        const known = await store.listDevices(user.id, clock())
        const listed = await printList(context, [known], options, device => ({
          id: device.id,
          'first seen': toTime(device.createdAt),
          'last used': toTime(device.lastUsedAt),
          expires: toTime(device.expiresAt),
          'user agent': device.userAgent,
        }))
        if (listed === 0 && !options.json) terminal.say(`${email} has no known devices.`)
      }),
    )

  devices
    .command('revoke')
    .description('forget a browser: it counts as a stranger again')
    .argument('<id>', 'id of the device', toId)
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
