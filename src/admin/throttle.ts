// throttle list|show|clear
import { Command } from 'commander'
import type { CountedClient } from '../login/client-group.ts'
import { type Context, type JsonOption, printList } from './context.ts'
import { WrongUse } from './failures.ts'
import { clientParser, countParser, parseEmail } from './input/values.ts'
import {
  clearClient,
  clearEmail,
  type FailingClient,
  listThrottle,
  showThrottle,
  type WaitingEmail,
} from './operations/throttle.ts'
import { count, fieldLines, jsonOf, timeText } from './terminal/layout.ts'
import { fieldsOfThrottle, SCOPE_LABELS } from './users/explanation.ts'
import { withStore } from './with-store.ts'

const DEFAULT_TOP = 20
/** The clients of each email are counted one by one. */
const MAX_TOP = 1_000
/** Enough to tell digests apart. */
const SHOWN_DIGITS = 12

type Named = JsonOption & { email?: string; client?: CountedClient }

export function throttleCommand(context: Context): Command {
  const { terminal } = context
  const throttle = new Command('throttle').description(
    'show and clear failed logins and the waits after them',
  )

  throttle
    .command('list')
    .description(
      'list the users that must wait, and the clients and networks with the most failures',
    )
    .option(
      '--top <n>',
      `how many of each (default: ${DEFAULT_TOP})`,
      countParser('--top', MAX_TOP),
    )
    .option('--json', 'print JSON')
    .action(({ top = DEFAULT_TOP, json }: JsonOption & { top?: number }) =>
      withStore(context, async ({ admin }) => {
        const list = await listThrottle(admin, top)
        if (json) return terminal.print(jsonOf(list))
        const { waiting, emails, clients } = list
        await printList(context, [emails], {}, toEmailRow)
        await printList(context, [clients], {}, toClientRow)
        terminal.say(
          `${count(waiting.email, 'email', 'emails')}, ${count(waiting.client, 'client', 'clients')} and ${count(waiting.network, 'network', 'networks')} must wait now.`,
        )
        if (clients.length > 0) {
          terminal.say(
            'Of clients and networks, only digests are stored, which cannot be turned back. The log has them: look for login.failed and login.throttled, with email and ip. "throttle show --client IP" prints the digests of an address.',
          )
        }
      }),
    )

  withNames(throttle.command('show'))
    .description('show failures and waits of an email, of a client, or of both together')
    .option('--json', 'print JSON')
    .action(({ email, client, json }: Named) => {
      if (email === undefined && client === undefined) {
        throw new WrongUse('Add --email, --client or both.')
      }
      return withStore(context, async ({ admin }) => {
        const named = { email: email ?? null, client: client ?? null }
        const shown = await showThrottle(admin, named)
        const digests = shown.scopes.map(({ scope, digest }) => [
          `digest of ${SCOPE_LABELS[scope]}`,
          shorten(digest),
        ])
        await terminal.print(
          json
            ? jsonOf({ email: named.email, client: client?.ip ?? null, ...shown })
            : fieldLines({ ...fieldsOfThrottle(shown), ...Object.fromEntries(digests) }),
        )
      })
    })

  withNames(throttle.command('clear'))
    .description(
      'clear the failures and blocks of an email or of a client, so that it need not wait',
    )
    .action(({ email, client }: Named) => {
      if ((email === undefined) === (client === undefined)) {
        throw new WrongUse('Add either --email or --client.')
      }
      return withStore(context, async ({ admin }) => {
        const isCleared = client
          ? await clearClient(admin, client)
          : await clearEmail(admin, email ?? '')
        const [name, rest] = client
          ? [
              client.ip,
              'If a user still waits there, the failures of that email are used up: run "throttle clear --email" too.',
            ]
          : [email, 'Blocks of clients and networks, and locks by administrators, stay.']
        if (!isCleared) {
          terminal.say(`${name} has no failures or blocks: nothing was cleared. ${rest}`)
          return
        }
        const sentence = `Cleared the failures and blocks of ${name}${client?.network ? ' and its network' : ''}. ${rest}`
        terminal.announce(
          'admin.throttle_cleared',
          client ? { client: client.ip } : { email },
          sentence,
        )
      })
    })

  return throttle
}

function withNames(command: Command): Command {
  return command
    .option('--email <email>', 'the email, with or without a user', parseEmail)
    .option('--client <ip>', 'the address of the client', clientParser('--client'))
}

function toEmailRow({ email, failures, dailyFailures, clients, waitsUntil }: WaitingEmail) {
  return {
    email,
    failures: String(failures),
    'for the day': String(dailyFailures),
    clients: String(clients),
    'waits until': toTime(waitsUntil),
  }
}

function toClientRow({ scope, digest, failures, waitsUntil }: FailingClient) {
  return {
    client: `${scope} digest ${shorten(digest)}`,
    failures: String(failures),
    'waits until': toTime(waitsUntil),
  }
}

function toTime(time: Date | null): string {
  return time ? timeText(time) : '-'
}

function shorten(digest: string): string {
  return digest.slice(0, SHOWN_DIGITS)
}
