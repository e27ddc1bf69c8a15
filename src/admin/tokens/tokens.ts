// admin-tokens add|list|revoke
import { dirname } from 'node:path'
import { Command, Option } from 'commander'
import { Failure, WrongUse } from '../../failures.ts'
import { withChangeLock } from '../../file-lock.ts'
import { hasCode, makeFolder } from '../../files.ts'
import { createAdminToken, digestOf } from '../../identifiers.ts'
import { type Context, type JsonOption, printList } from '../context.ts'
import { type AdminFile, withFile } from '../file-changes.ts'
import { tokenEvent } from '../file-events.ts'
import { endParser, type Moment } from '../input/times.ts'
import { jsonOf, timeText } from '../terminal/layout.ts'
import {
  type AdminToken,
  explainTokenFile,
  isTokenName,
  readTokens,
  replaceTokens,
  TOKEN_ROLES,
  TokenFileError,
} from './token-file.ts'

const TOKEN_FILE: AdminFile = {
  pathIn: config => config.adminTokensFile,
  isWrongContent: error => error instanceof TokenFileError,
  explain: explainTokenFile,
}

const DEFAULT_END: Moment = now => new Date(now.getTime() + 365 * 24 * 3600_000)

type AddOptions = JsonOption & Pick<AdminToken, 'role'> & { valid?: Moment }

export function tokensCommand(context: Context): Command {
  const { terminal } = context
  const tokens = new Command('admin-tokens').description(
    'add, list and revoke tokens of the admin API',
  )

  tokens
    .command('add')
    .description('add a token and print it: it is shown only this once')
    .argument('<name>', 'name of the token, for the log and the audit', parseName)
    .addOption(
      new Option('--role <role>', 'read: only GET requests; write: all requests')
        .choices(TOKEN_ROLES)
        .makeOptionMandatory(),
    )
    .option(
      '--valid <time>',
      'when the token ends: a time, such as 2030-01-31T12:00 (UTC), or a duration, such as 90d (default: 365d)',
      endParser('--valid'),
    )
    .option('--json', 'print JSON')
    .action((name: string, { role, valid = DEFAULT_END, json }: AddOptions) =>
      withFile(context, TOKEN_FILE, async (path, prepare) => {
        const { clock, record } = await prepare()
        const token = createAdminToken()
        const createdAt = clock()
        const expiresAt = valid(createdAt)
        if (expiresAt <= createdAt) throw new WrongUse('--valid takes a time in the future.')
        const added = { name, role, digest: digestOf(token), createdAt, expiresAt }
        await change(path, tokens => {
          if (tokens.some(known => known.name === name)) {
            throw new Failure(`There is already a token ${name}: revoke it, or use another name.`)
          }
          return [...tokens, added]
        })
        terminal.announce(
          'admin.token_added',
          { name, role, expiresAt },
          `Added the token ${name} with the role "${role}"; it ends at ${timeText(expiresAt)}.`,
        )
        await record([tokenEvent('token.added', added)])
        const text = json ? jsonOf({ name, role, createdAt, expiresAt, token }) : `${token}\n`
        await terminal.print(text).catch(error => {
          const advice = 'revoke it, and add another one'
          throw new Failure(`The token ${name} was added but could not be printed: ${advice}.`, {
            cause: error,
          })
        })
      }),
    )

  tokens
    .command('list')
    .description('list the tokens; only their digests are stored')
    .option('--json', 'print JSON')
    .action((options: JsonOption) =>
      withFile(context, TOKEN_FILE, async path => {
        const known = (await readOrNone(path)).map(({ digest: _, ...token }) => token)
        const listed = await printList(context, [known], options, token => ({
          name: token.name,
          role: token.role,
          created: timeText(token.createdAt),
          ends: token.expiresAt ? timeText(token.expiresAt) : 'never',
        }))
        if (listed === 0 && !options.json) {
          terminal.say('There are no tokens yet: run "admin-tokens add" to add one.')
        }
      }),
    )

  tokens
    .command('revoke')
    .description('revoke a token; a running service refuses it at once')
    .argument('<name>', 'name of the token', parseName)
    .action((name: string) =>
      withFile(context, TOKEN_FILE, async (path, prepare) => {
        let revoked: AdminToken | undefined
        await change(path, tokens => {
          revoked = tokens.find(known => known.name === name)
          if (!revoked) throw new Failure(`There is no token ${name}.`)
          return tokens.filter(known => known !== revoked)
        })
        terminal.announce('admin.token_revoked', { name }, `Revoked the token ${name}.`)
        const { record } = await prepare()
        if (revoked) await record([tokenEvent('token.revoked', revoked)])
      }),
    )

  return tokens
}

/** Does not repeat what was typed: it may be a token. */
function parseName(typed: string): string {
  if (isTokenName(typed)) return typed
  throw new WrongUse(
    'The name of a token has 1 to 50 of the characters a-z, 0-9, ".", "_" and "-".',
  )
}

async function change(path: string, toNext: (tokens: AdminToken[]) => AdminToken[]): Promise<void> {
  await makeFolder(dirname(path))
  await withChangeLock(path, async () => replaceTokens(path, toNext(await readOrNone(path))))
}

async function readOrNone(path: string): Promise<AdminToken[]> {
  try {
    return (await readTokens(path)).tokens
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return []
    throw error
  }
}
