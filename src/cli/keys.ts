// keys list|rotate
import { Command } from 'commander'
import { timeText } from '../admin/layout.ts'
import type { NewAuditEvent } from '../domain/audit.ts'
import { ensureKeyFile, loadKeySet, readKeyFile, replaceKeyFile } from '../keys/key-file.ts'
import { createKeys, importKeys, type KeySet, NO_KEYS } from '../keys/key-set.ts'
import { PUBLISH_SECONDS, rotate } from '../keys/rotation.ts'
import { withChangeLock } from '../storage/file-lock.ts'
import { type Context, type JsonOption, printList } from './context.ts'
import { withKeyFile } from './file-changes.ts'

const MACHINES_WITHOUT_FILE =
  'Warning: Machines that do not have this file refuse the tokens of the new keys. Copy it to them now.'
const ENCRYPTION_KEY_ADDED =
  'Added the missing key that encrypts second factors, too; it is used at once. Copy the file to all machines now.'
const SECOND_FACTORS = 'second factors'

export function keysCommand(context: Context): Command {
  const keys = new Command('keys').description('list and rotate the keys')

  keys
    .command('list')
    .description('list the keys, without their secrets')
    .option('--json', 'print JSON')
    .action((options: JsonOption) =>
      withKeyFile(context, async (path, prepare) => {
        const { clock } = await prepare()
        await printKeys(context, path, clock(), options)
      }),
    )

  keys
    .command('rotate')
    .description(
      'add a new generation of keys, or make the first; a running service loads it by itself',
    )
    .option('--now', 'sign with the new keys at once, in an emergency, instead of after an hour')
    .option('--json', 'print the resulting list of keys as JSON')
    .action((options: JsonOption & { now?: boolean }) =>
      withKeyFile(context, async (path, prepare) => {
        const { announce, say } = context.terminal
        const { clock, record } = await prepare()
        const first = await ensureKeyFile(path, clock())
        const { added, removed } = first
          ? { added: keysOf(first), removed: [] }
          : await rotateKeyFile(path, clock, options.now ? 0 : PUBLISH_SECONDS)
        const gone = removed.length > 0 && { removed: removed.map(({ keyId }) => keyId) }
        const facts = { path, added: added.map(({ keyId }) => keyId), ...gone }
        if (first) announce('admin.keys_created', facts, `Made the first signing keys in ${path}.`)
        else {
          const start = options.now ? 'at once.' : 'in an hour. Copy it to all machines before.'
          const sentence = `Added new signing keys to ${path}; they sign ${start}`
          announce('admin.keys_rotated', facts, sentence)
          if (options.now) say(MACHINES_WITHOUT_FILE)
          if (added.some(({ tokens }) => tokens === SECOND_FACTORS)) say(ENCRYPTION_KEY_ADDED)
        }
        await record([...eventsOf(added, 'key.added'), ...eventsOf(removed, 'key.removed')])
        if (options.json) await printKeys(context, path, clock(), options)
      }),
    )

  return keys
}

async function rotateKeyFile(path: string, clock: () => Date, delaySeconds: number) {
  // Refuses a file without keys before a lock file is created beside it.
  await readKeyFile(path)
  return withChangeLock(path, async () => {
    const file = await readKeyFile(path)
    // A file that lacks a kind of keys can be rotated too; no service has used it.
    const before = keysOf(await importKeys(file).catch(() => NO_KEYS))
    const after = keysOf(await replaceKeyFile(path, await rotate(file, clock(), delaySeconds)))
    const without = (keys: Key[], others: Key[]) =>
      keys.filter(({ keyId }) => !others.some(other => other.keyId === keyId))
    return { added: without(after, before), removed: without(before, after) }
  })
}

type Key = ReturnType<typeof keysOf>[number]

/** `tokens` tells what a key is for. The name is older than keys that encrypt, and programs read it. */
const keysOf = ({ accessKeys, refreshKeys, encryptionKeys }: KeySet) => [
  ...accessKeys.map(key => ({ ...key, tokens: 'access' })),
  ...refreshKeys.map(key => ({ ...key, tokens: 'refresh' })),
  ...encryptionKeys.map(key => ({ ...key, tokens: SECOND_FACTORS })),
]

function eventsOf(keys: Key[], action: 'key.added' | 'key.removed'): NewAuditEvent[] {
  return keys.map(({ keyId: target, tokens, algorithm, fingerprint }) => {
    const facts = { tokens, algorithm, fingerprint }
    const change = action === 'key.removed' ? { before: facts } : { after: facts }
    return { action, target, targetId: null, ...change }
  })
}

async function printKeys(
  context: Context,
  path: string,
  now: Date,
  options: JsonOption,
): Promise<void> {
  const keySet = await loadKeySet(path)
  const keys = createKeys(keySet)
  const { accessKey, refreshKey } = keys.signingAt(now)
  const inUse = [accessKey, refreshKey, keys.encryptionAt(now)].map(key => key?.keyId)
  const rows = keysOf(keySet).map(({ keyId, tokens, algorithm, usedFrom }) => {
    const from = new Date(usedFrom * 1000)
    const [active, former] =
      algorithm === 'A256GCM' ? ['encrypting', 'decrypting'] : ['signing', 'verifying']
    const state = inUse.includes(keyId) ? active : from > now ? 'coming' : former
    return { keyId, tokens, algorithm, state, signsFrom: from }
  })
  await printList(context, [rows], options, ({ keyId, tokens, signsFrom, ...row }) => ({
    key: keyId,
    for: tokens === SECOND_FACTORS ? tokens : `${tokens} tokens`,
    ...row,
    from: timeText(signsFrom),
  }))
}
