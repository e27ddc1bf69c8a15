// Files: replaced atomically, their owners and modes, and the system's error codes.
import { randomUUID } from 'node:crypto'
import { fstatSync } from 'node:fs'
import { lchown, open, rename, stat, unlink } from 'node:fs/promises'

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
    await copyOwner(path, temporary)
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
 * Gives `made` the owner of `path`, if that file exists: root may replace a file of the user that runs the
 * service.
 */
export async function copyOwner(path: string, made: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  let owner: { uid: number; gid: number }
  try {
    owner = await stat(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return
    throw error
  }
  // lchown, not chown: a symbolic link at `made` must not hand over the file that it points to.
  await lchown(made, owner.uid, owner.gid)
}

/** True if every user of this machine can read or change the file. */
export async function isOpenToAll(path: string): Promise<boolean> {
  return hasMode(path, 0o007)
}

/** True if any user but the owner can read or change the file. */
export async function isOpenToOthers(path: string): Promise<boolean> {
  return hasMode(path, 0o077)
}

/** The same for an open file; false for a pipe or a terminal. */
export function isDescriptorOpenToOthers(descriptor: number): boolean {
  const stats = fstatSync(descriptor)
  return process.platform !== 'win32' && stats.isFile() && (stats.mode & 0o077) !== 0
}

/** False on Windows, which has no such modes. */
async function hasMode(path: string, bits: number): Promise<boolean> {
  return process.platform !== 'win32' && ((await stat(path)).mode & bits) !== 0
}
