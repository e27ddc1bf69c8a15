// Transcripts of commands: arguments, stdout, stderr and exit code, in test/admin/transcripts/.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { setUpCli } from './cli.ts'
import { createTestDatabase } from './engines.ts'

/** The same on both engines: only the name of the database may differ. */
export const ON_BOTH = ['users', 'sessions', 'not-found', 'database', 'doctor', 'audit', 'throttle']
/** The results do not depend on the engine. */
export const ON_ONE = ['emails', 'passwords', 'wrong-use', 'keys', 'admin-tokens', 'faults']

/** Commands on a database without tables. */
export function setUpEmptyCli(engine: EngineName = 'sqlite') {
  return setUpCli(engine, createTestDatabase(engine))
}

/** Fails unless every command prints what the transcript says. */
export async function assertTranscript(
  engine: EngineName,
  name: string,
  way: 'run' | 'runProcess' = 'run',
): Promise<void> {
  const cli = await setUpEmptyCli(engine)
  const file = new URL(`../admin/transcripts/${name}.txt`, import.meta.url)
  const transcript = await readFile(file, 'utf8')
  assert.equal(await cli.replay(transcript, cli[way]), transcript)
}
