// Keys for tests that need no file of them.
import { createKeys, importKeys, type Keys } from '../../src/keys/key-set.ts'
import { createFirstKeys } from '../../src/keys/rotation.ts'

export async function makeKeys(now: Date): Promise<Keys> {
  return createKeys(await importKeys(await createFirstKeys(now)))
}
