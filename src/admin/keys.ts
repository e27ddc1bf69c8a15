// keys list|rotate
import { Command } from 'commander'
import { ensureKeyFile, loadKeySet, readKeyFile, replaceKeyFile } from '../session/key-file.ts'
import { createKeys, PUBLISH_SECONDS, rotate } from '../session/keys.ts'
import { type Context, configOf } from './context.ts'

export function keysCommand(context: Context): Command {
  const keys = new Command('keys').description('see and renew the signing keys')

  keys
    .command('list')
    .description('list the signing keys')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const { signingKeysFile } = configOf(context)
      const keySet = await loadKeySet(signingKeysFile)
      const signing = createKeys(keySet).signingAt(context.clock())
      const rows = [
        ...keySet.accessKeys.map(key => ({
          ...key,
          tokens: 'access',
          signs: key === signing.accessKey,
        })),
        ...keySet.refreshKeys.map(key => ({
          ...key,
          algorithm: 'HS256',
          tokens: 'refresh',
          signs: key === signing.refreshKey,
        })),
      ].map(({ keyId, algorithm, tokens, signs, signsFrom }) => ({
        keyId,
        tokens,
        algorithm,
        signsFrom: new Date(signsFrom * 1000).toISOString(),
        signs,
      }))
      if (json) return context.terminal.printJson(rows)
      context.terminal.printTable(
        rows.map(({ keyId, signsFrom, signs, ...row }) => ({
          key: keyId,
          ...row,
          'signs from': signsFrom,
          state: signs ? 'signing' : 'verifying',
        })),
      )
    })

  keys
    .command('rotate')
    .description('add a new generation of keys, or make the first; the service need not restart')
    .action(async () => {
      const { signingKeysFile: path } = configOf(context)
      if (await ensureKeyFile(path, context.clock())) {
        context.terminal.announce(
          'admin.keys_created',
          { path },
          `Made the first signing keys in ${path}.`,
        )
        return
      }
      await replaceKeyFile(path, await rotate(await readKeyFile(path), context.clock()))
      context.terminal.announce(
        'admin.keys_rotated',
        { path },
        `Added new signing keys to ${path}; they sign in ${PUBLISH_SECONDS} seconds.`,
      )
    })

  return keys
}
