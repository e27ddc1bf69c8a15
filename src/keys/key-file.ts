// The key file: created once, read at the start and again whenever it changes.
import { link, readFile, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import {
  hasCode,
  makeFolder,
  messageOf,
  replaceFile,
  syncFolder,
  writeTemporaryFile,
} from '../system/files.ts'
import { type Followed, followFiles } from '../system/follow-files.ts'
import {
  createKeys,
  findShortKey,
  importKeys,
  type KeyFile,
  KeyFileError,
  type KeySet,
  type Keys,
  NO_KEYS,
  parseKeyFile,
} from './key-set.ts'
import { createFirstKeys } from './rotation.ts'

export async function readKeyFile(path: string): Promise<KeyFile> {
  return parseKeyFile(await readFile(path, 'utf8'))
}

export async function loadKeySet(path: string): Promise<KeySet> {
  return importKeys(await readKeyFile(path))
}

/** Why the key file could not be used, and what to do. */
export function explainKeyFile(path: string, error: unknown): string {
  if (hasCode(error, 'ENOENT')) {
    return `There is no key file ${path}. If the path is right, run "keys rotate" to make it`
  }
  const advice =
    error instanceof KeyFileError
      ? 'Restore it from a backup. Or move it away and run "keys rotate": tokens issued so far become invalid'
      : 'Check SIGNING_KEYS_FILE and the permissions of the file and its folder'
  return `The key file ${path} cannot be used: ${messageOf(error)}. ${advice}`
}

/** Creates the file if there is none. Returns its keys if this call did, else null. Parallel calls create one file. */
export async function ensureKeyFile(path: string, now: Date): Promise<KeySet | null> {
  try {
    await stat(path)
    return null
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
  }
  await makeFolder(dirname(path))
  const file = await createFirstKeys(now)
  const keySet = await importKeys(file)
  const temporary = await writeTemporaryFile(path, toText(file), 0o600)
  try {
    // Unlike a rename, a link fails if another process has created the file meanwhile.
    await link(temporary, path)
    await syncFolder(dirname(path))
    return keySet
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return null
    throw error
  } finally {
    // Once the keys are in place, the caller must record them. What cannot be removed is as protected as the keys.
    await unlink(temporary).catch(() => {})
  }
}

/** Returns the keys of the new file. */
export async function replaceKeyFile(path: string, file: KeyFile): Promise<KeySet> {
  const keySet = await importKeys(file)
  await replaceFile(path, toText(file), 0o600)
  return keySet
}

function toText(file: KeyFile): string {
  return `${JSON.stringify(file, null, 2)}\n`
}

export type WatchedKeys = Keys & Pick<Followed<void>, 'reload' | 'close'>

/**
 * Reloads the keys when the file changes. If it cannot be read, that is reported and the old keys stay. With
 * `isInUse`, the first keys may be shorter than new ones must be.
 */
export async function watchKeys(
  path: string,
  isInUse: boolean,
  onReload: (error: Error | null) => void,
): Promise<WatchedKeys> {
  const keySet: KeySet = { ...NO_KEYS }
  let inUse = (_keyId: string) => isInUse
  const load = async () => {
    const loaded = await loadKeySet(path)
    const problem = findShortKey(loaded, inUse)
    if (problem) throw new KeyFileError(problem)
    inUse = keyId => loaded.accessKeys.some(key => key.keyId === keyId)
    Object.assign(keySet, loaded)
  }
  const { reload, close } = await followFiles([path], load, onReload)
  return { ...createKeys(keySet), reload, close }
}
