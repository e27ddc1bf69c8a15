// The file of the signing keys: made once, read at start, read again when it changes.
import { lchown, link, mkdir, readFile, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { writeDraft } from '../draft.ts'
import { hasCode } from '../error-code.ts'
import { type Followed, followFiles } from '../follow-files.ts'
import {
  createGeneration,
  createKeys,
  importKeys,
  type KeyFile,
  type KeySet,
  type Keys,
  parseKeyFile,
} from './keys.ts'

export async function readKeyFile(path: string): Promise<KeyFile> {
  return parseKeyFile(await readFile(path, 'utf8'))
}

export async function loadKeySet(path: string): Promise<KeySet> {
  return importKeys(await readKeyFile(path))
}

/** True if everybody on the machine may read or change the file. */
export async function isOpenToAll(path: string): Promise<boolean> {
  return process.platform !== 'win32' && ((await stat(path)).mode & 0o007) !== 0
}

/** True if anybody but the owner may read or change the file. */
export async function isOpenToOthers(path: string): Promise<boolean> {
  if (process.platform === 'win32') return false
  return ((await stat(path)).mode & 0o077) !== 0
}

/** Creates the file if there is none; of several processes that try at once, one does. */
export async function ensureKeyFile(path: string, now: Date): Promise<boolean> {
  try {
    await stat(path)
    return false
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
  }
  await mkdir(dirname(path), { recursive: true })
  const draft = await writeDraft(path, toText({ keys: await createGeneration(now, 0) }), 0o600)
  try {
    await link(draft, path)
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw error
  } finally {
    await unlink(draft)
  }
}

/** Readers see the old file or the new one, never half of one. */
export async function replaceKeyFile(path: string, file: KeyFile): Promise<void> {
  await importKeys(file)
  const draft = await writeDraft(path, toText(file), 0o600)
  await giveToOwnerOf(path, draft)
  await rename(draft, path)
}

/** Root may rotate for the user that runs the service, who must be able to use the result. */
export async function giveToOwnerOf(path: string, made: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await stat(path)
  // A link that the owner has put there must not give away what it leads to.
  await lchown(made, uid, gid)
}

function toText(file: KeyFile): string {
  return `${JSON.stringify(file, null, 2)}\n`
}

export type WatchedKeys = Keys & Pick<Followed<Keys>, 'reload' | 'close'>

/** Follows the file. One that cannot be read is reported, and the keys stay as they were. */
export async function watchKeys(
  path: string,
  onReload: (error: Error | null) => void,
): Promise<WatchedKeys> {
  const load = async () => createKeys(await loadKeySet(path))
  const { current, reload, close } = await followFiles([path], load, onReload)
  return {
    signingAt: now => current().signingAt(now),
    findAccessKey: keyId => current().findAccessKey(keyId),
    findRefreshKey: keyId => current().findRefreshKey(keyId),
    publicJwks: () => current().publicJwks(),
    reload,
    close,
  }
}
