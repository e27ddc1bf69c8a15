// Opens an engine. npm bcrypt replaces the lanes where they do not start or are not correct.
import type { Hasher } from './hasher.ts'
import { openNative } from './native.ts'
import { openLanes } from './pool.ts'

/** `onLost` is called when a thread has died and its jobs have been rejected. The next job replaces it. */
export async function openHasher(
  engine: Hasher['name'],
  threads: number,
  onWarning: (text: string) => void,
  onLost: (error: Error) => void,
): Promise<Hasher> {
  if (engine === 'native') return openNative(threads)
  try {
    return await openLanes(threads, onLost)
  } catch (error) {
    const reason = `because the lanes cannot be used: ${error instanceof Error ? error.message : error}`
    onWarning(`Passwords are verified with npm bcrypt, ${reason}.`)
    return openNative(threads)
  }
}
