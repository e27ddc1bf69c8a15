// Folders for the data of tests.
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** In the folder that the test command has chosen. */
export function makeTemporaryFolder(prefix: string): Promise<string> {
  return mkdtemp(join(process.env.TEST_FOLDER ?? tmpdir(), prefix))
}
