// Signing keys for tests that need no file of them.
import { createGeneration, createKeys, importKeys, type Keys } from '../../src/keys/key-set.ts'

/** One generation, which signs from now on. */
export async function makeKeys(now: Date): Promise<Keys> {
  return createKeys(await importKeys({ keys: await createGeneration(now, 0) }))
}
