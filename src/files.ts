// Files: replaced atomically, their owners and modes, and the system's error codes.
import { randomUUID } from 'node:crypto'
import type { Stats } from 'node:fs'
import { chmod, lchown, open, rename, stat, unlink } from 'node:fs/promises'

/** The system's name for an error, such as ENOENT or EADDRINUSE; empty if it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

export function hasCode(error: unknown, ...codes: string[]): boolean {
  return codes.includes(codeOf(error))
}

/** Readers see the old file or the new one, never a part of it. */
export async function replaceFile(path: string, text: string, mode: number): Promise<void> {
  const temporary = await writeTemporaryFile(path, text, mode)
  try {
    const owner = await copyOwner(path, temporary)
    // A service that reads the file through its group can still do so.
    if (owner) await chmod(temporary, mode | (owner.mode & 0o040))
    await rename(temporary, path)
  } catch (error) {
    await unlink(temporary)
    throw error
  }
}

/** Writes and syncs a file beside `path`. The caller renames or links it, and removes it on failure. */
export async function writeTemporaryFile(
  path: string,
  text: string,
  mode: number,
): Promise<string> {
  const temporary = `${path}.${randomUUID()}.tmp`
  const handle = await open(temporary, 'wx', mode)
  try {
    await handle.writeFile(text)
    await handle.sync()
    return temporary
  } catch (error) {
    await unlink(temporary)
    throw error
  } finally {
    await handle.close()
  }
}

/**
 * Gives `made` the owner and group of `path`, if that file exists: root may replace a file of the user that runs
 * the service. Returns what was found; null if nothing was changed.
 */
export async function copyOwner(path: string, made: string): Promise<Stats | null> {
  if (process.getuid?.() !== 0) return null
  let owner: Stats
  try {
    owner = await stat(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw error
  }
  // lchown, not chown: a symbolic link at `made` must not hand over the file that it points to.
  await lchown(made, owner.uid, owner.gid)
  return owner
}

/**
 * Says what to do if others can read a secret or its group can change it; null if not. The group may read it, as
 * Kubernetes mounts secrets. Null on Windows, which has no such modes.
 */
export async function findExposure(path: string): Promise<string | null> {
  if (process.platform === 'win32' || ((await stat(path)).mode & 0o027) === 0) return null
  return `${path} can be read by others or changed by its group: chmod 600 it, or 640 if its group must read it`
}

/** The same for a group that can read the secret although this process is not in it. */
export async function findForeignGroup(path: string): Promise<string | null> {
  const { mode, gid } = await stat(path)
  const own = [process.getgid?.(), ...(process.getgroups?.() ?? [])]
  if ((mode & 0o040) === 0 || own.includes(undefined) || own.includes(gid)) return null
  return `${path} can be read by the group ${gid}, which this process is not in: chgrp it, or chmod 600 it`
}
