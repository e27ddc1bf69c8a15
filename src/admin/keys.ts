// keys list|rotate
import { Command } from 'commander'
import { copyOwner, hasCode } from '../files.ts'
import { ensureKeyFile, loadKeySet, readKeyFile, replaceKeyFile } from '../keys/key-file.ts'
import { createKeys, KeyFileError, PUBLISH_SECONDS, rotate } from '../keys/key-set.ts'
import { type Context, configOf, type JsonOption, printList } from './context.ts'
import { Failure, messageOf } from './failures.ts'
import { FileLockError, withFileLock } from './file-lock.ts'
import { toTime } from './terminal/layout.ts'

/** A rotation holds the lock for some milliseconds; a holder that takes longer than this is stuck. */
const LOCK_WAIT_MS = 20_000

export function keysCommand(context: Context): Command {
  const keys = new Command('keys').description('see and renew the signing keys')

  keys
    .command('list')
    .description('list the signing keys, without their secrets')
    .option('--json', 'print JSON')
    .action((options: JsonOption) =>
      withKeyFile(context, path => printKeys(context, path, options)),
    )

  keys
    .command('rotate')
    .description('add a new generation of keys, or make the first; the service need not restart')
    .option('--json', 'print the keys that there are now as JSON')
    .action((options: JsonOption) =>
      withKeyFile(context, async path => {
        const { announce } = context.terminal
        if (await ensureKeyFile(path, context.clock())) {
          announce('admin.keys_created', { path }, `Made the first signing keys in ${path}.`)
        } else {
          await rotateKeyFile(path, context.clock)
          announce(
            'admin.keys_rotated',
            { path },
            `Added new signing keys to ${path}; they sign in ${PUBLISH_SECONDS} seconds.`,
          )
        }
        if (options.json) await printKeys(context, path, options)
      }),
    )

  return keys
}

/** Of several processes that rotate at once, each adds to what the one before has written. */
async function rotateKeyFile(path: string, clock: () => Date): Promise<void> {
  // A file that holds no keys is refused before a lock is made beside it.
  await readKeyFile(path)
  const lockFile = `${path}.lock`
  await withFileLock(lockFile, LOCK_WAIT_MS, async () => {
    await copyOwner(path, lockFile)
    await replaceKeyFile(path, await rotate(await readKeyFile(path), clock()))
  })
}

async function printKeys(context: Context, path: string, options: JsonOption): Promise<void> {
  const now = context.clock()
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
    'signs from': toTime(signsFrom),
  }))
}

async function withKeyFile(
  context: Context,
  command: (path: string) => Promise<void>,
): Promise<void> {
  const { signingKeysFile: path } = configOf(context)
  try {
    await command(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) {
      throw new Failure(
        `There is no key file ${path} yet. If the path is right, "keys rotate" makes it.`,
      )
    }
    if (error instanceof FileLockError) throw new Failure(error.message)
    if (error instanceof KeyFileError) {
      throw new Failure(
        `The key file ${path} cannot be used: ${error.message}. Bring it back from a backup; or move it away and run "keys rotate", which ends all sessions.`,
      )
    }
    if (!isFileError(error)) throw error
    throw new Failure(
      `The key file ${path} cannot be used: ${messageOf(error)}. Is SIGNING_KEYS_FILE right, and may you write there?`,
    )
  }
}

function isFileError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error
}
