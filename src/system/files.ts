// Files: replaced atomically, their owners and modes; and what the system's errors say.
import { randomUUID } from 'node:crypto'
import { fstatSync, type Stats } from 'node:fs'
import {
  access,
  chmod,
  constants,
  lchown,
  mkdir,
  open,
  rename,
  rm,
  stat,
  unlink,
} from 'node:fs/promises'
import { dirname } from 'node:path'

/** The system's name for an error, such as ENOENT or EADDRINUSE; empty if it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

export function hasCode(error: unknown, code: string): boolean {
  return codeOf(error) === code
}

/** An AggregateError has an empty message, so the messages of its parts are joined. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map(messageOf).join(', ')
  }
  return error instanceof Error ? error.message : String(error)
}

/** Makes the folder and those above it. Unlike Node's recursive mkdir, it does not hang in /proc. */
export async function makeFolder(path: string): Promise<void> {
  const parent = dirname(path)
  try {
    await mkdir(path)
  } catch (error) {
    if (hasCode(error, 'EEXIST') && (await stat(path)).isDirectory()) return
    if (!hasCode(error, 'ENOENT') || parent === path) throw error
    await makeFolder(parent)
    await mkdir(path).catch(again => {
      if (!hasCode(again, 'EEXIST')) throw again
    })
  }
  await syncFolder(parent)
}

/** Without it, a crash of the machine can undo that a file in the folder was made or renamed, even if the file was synced. */
export async function syncFolder(folder: string): Promise<void> {
  // Windows cannot open a folder.
  if (process.platform === 'win32') return
  try {
    const handle = await open(folder)
    await handle.sync().finally(() => handle.close())
  } catch (error) {
    // Some network file systems cannot sync a folder, and a folder may be writable but not readable.
    if (!['EINVAL', 'EACCES'].includes(codeOf(error))) throw error
  }
}

/** Says why this process cannot make files in the folder, and what to do; null if it can. */
export async function findFolderProblem(folder: string): Promise<string | null> {
  try {
    await access(folder, constants.W_OK | constants.X_OK)
    return null
  } catch (error) {
    const { uid } = await stat(folder)
    const own = process.getuid?.()
    if (own === undefined || uid === own) return `no files can be made in it (${codeOf(error)})`
    return `it belongs to the user with the id ${uid}, and this process runs as ${own}. Run it as that user, or give the folder to this one (chown)`
  }
}

/**
 * Readers see the old file or the new one, never a part of it. The new file belongs to the owner of the old one, or, if
 * another user may have made the old one to get the content, to the `caller`.
 */
export async function replaceFile(
  path: string,
  text: string | Iterable<string>,
  mode: number,
  newOwner: 'same' | 'caller' = 'same',
): Promise<void> {
  const temporary = await writeTemporaryFile(path, text, mode)
  try {
    const owner = newOwner === 'same' ? await copyOwner(path, temporary) : null
    // A service that reads the file through its group can still do so. An exposed file is closed to all others.
    if (owner && !isExposed(owner.mode)) await chmod(temporary, mode | (owner.mode & 0o040))
    await rename(temporary, path)
    await syncFolder(dirname(path))
  } catch (error) {
    // The rename may have taken effect although it failed. Then there is no temporary file left.
    await rm(temporary, { force: true })
    throw error
  }
}

/** Writes and syncs a file beside `path`. The caller renames or links it, and removes it on failure. */
export async function writeTemporaryFile(
  path: string,
  text: string | Iterable<string>,
  mode: number,
): Promise<string> {
  const temporary = `${path}.${randomUUID()}.tmp`
  const handle = await open(temporary, 'wx', mode)
  try {
    try {
      await handle.writeFile(text)
      await handle.sync()
    } finally {
      // On a network file system, this too may report that the disk is full.
      await handle.close()
    }
    return temporary
  } catch (error) {
    await unlink(temporary)
    throw error
  }
}

/**
 * Gives `made` the owner and group of `path`, if that file exists: root may replace a file of the user that runs
 * the service. Returns what was found; null if nothing was changed.
 */
export async function copyOwner(path: string, made: string): Promise<Stats | null> {
  if (process.getuid?.() !== 0) return null
  const owner = await stat(path).catch(error => {
    if (!hasCode(error, 'ENOENT')) throw error
  })
  if (!owner) return null
  // lchown, not chown: a symbolic link at `made` must not hand over the file that it points to.
  await lchown(made, owner.uid, owner.gid)
  return owner
}

/**
 * Says what to do if others can read a secret or its group can change it; null if not. The group may read it, as
 * Kubernetes mounts secrets. Null on Windows, which has no such modes.
 */
export async function findExposure(path: string): Promise<string | null> {
  if (process.platform === 'win32' || !isExposed((await stat(path)).mode)) return null
  return `${path} can be read by others or changed by its group: chmod 600 it, or 640 if its group must read it`
}

/** The same for a group that can read the secret although this process is not in it. */
export async function findForeignGroup(path: string): Promise<string | null> {
  const { mode, gid } = await stat(path)
  const own = [process.getgid?.(), ...(process.getgroups?.() ?? [])]
  if ((mode & 0o040) === 0 || own.includes(undefined) || own.includes(gid)) return null
  return `${path} can be read by the group ${gid}, which this process is not in: chgrp it, or chmod 600 it`
}

/** True if other users can read or change an open file, or its group can change it; false for a pipe or a terminal. */
export function isDescriptorExposed(descriptor: number): boolean {
  const stats = fstatSync(descriptor)
  return process.platform !== 'win32' && stats.isFile() && isExposed(stats.mode)
}

function isExposed(mode: number): boolean {
  return (mode & 0o027) !== 0
}
