// keys list|rotate
import { Command } from 'commander'
import type { Config } from '../config/config.ts'
import {
  ensureKeyFile,
  explainKeyFile,
  loadKeySet,
  readKeyFile,
  replaceKeyFile,
} from '../keys/key-file.ts'
import { createKeys, KeyFileError, PUBLISH_SECONDS, rotate } from '../keys/key-set.ts'
import { type Context, configOf, type JsonOption, printList } from './context.ts'
import { Failure } from './failures.ts'
import { FileLockError, withChangeLock } from './file-lock.ts'
import { timeText } from './terminal/layout.ts'
import { clockOf, withAnyStore } from './with-store.ts'

export function keysCommand(context: Context): Command {
  const keys = new Command('keys').description('list and rotate the signing keys')

  keys
    .command('list')
    .description('list the signing keys, without their secrets')
    .option('--json', 'print JSON')
    .action((options: JsonOption) =>
      withKeyFile(context, (path, clock) => printKeys(context, path, clock(), options)),
    )

  keys
    .command('rotate')
    .description(
      'add a new generation of keys, or make the first; a running service loads it by itself',
    )
    .option('--json', 'print the resulting list of keys as JSON')
    .action((options: JsonOption) =>
      withKeyFile(context, async (path, clock) => {
        const { announce } = context.terminal
        if (await ensureKeyFile(path, clock())) {
          announce('admin.keys_created', { path }, `Made the first signing keys in ${path}.`)
        } else {
          await rotateKeyFile(path, clock)
          announce(
            'admin.keys_rotated',
            { path },
            `Added new signing keys to ${path}; they start signing in ${PUBLISH_SECONDS} seconds.`,
          )
        }
        if (options.json) await printKeys(context, path, clock(), options)
      }),
    )

  return keys
}

async function rotateKeyFile(path: string, clock: () => Date): Promise<void> {
  // Refuses a file without keys before a lock file is created beside it.
  await readKeyFile(path)
  await withChangeLock(path, async () => {
    await replaceKeyFile(path, await rotate(await readKeyFile(path), clock()))
  })
}

async function printKeys(
  context: Context,
  path: string,
  now: Date,
  options: JsonOption,
): Promise<void> {
  const keySet = await loadKeySet(path)
  const signing = createKeys(keySet).signingAt(now)
  const rows = [
    ...keySet.accessKeys.map(key => ({ ...key, tokens: 'access' })),
    ...keySet.refreshKeys.map(key => ({ ...key, tokens: 'refresh' })),
  ].map(({ keyId, tokens, algorithm, signsFrom }) => {
    const from = new Date(signsFrom * 1000)
    const isSigning = keyId === signing.accessKey.keyId || keyId === signing.refreshKey.keyId
    const state = isSigning ? 'signing' : from > now ? 'coming' : 'verifying'
    return { keyId, tokens, algorithm, state, signsFrom: from }
  })
  await printList(context, [rows], options, ({ keyId, signsFrom, ...row }) => ({
    key: keyId,
    ...row,
    'signs from': timeText(signsFrom),
  }))
}

async function withKeyFile(
  context: Context,
  command: (path: string, clock: () => Date) => Promise<void>,
): Promise<void> {
  const config = configOf(context)
  const { signingKeysFile: path } = config
  const clock = await clockOfKeys(context, config)
  try {
    await command(path, clock)
  } catch (error) {
    if (error instanceof FileLockError) throw new Failure(error.message)
    if (!(error instanceof KeyFileError) && !isFileError(error)) throw error
    throw new Failure(`${explainKeyFile(path, error)}.`)
  }
}

/** Keys can also be rotated while the database cannot be used, for example after a leak. */
async function clockOfKeys(context: Context, config: Config): Promise<() => Date> {
  if (config.database.engine === 'sqlite') return context.clock
  try {
    return await withAnyStore(config, ({ store }) => clockOf(store.maintenance, context))
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    context.terminal.say(`Warning: ${error.message} This command uses the clock of this machine.`)
    return context.clock
  }
}

function isFileError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error
}
