// The commands on PostgreSQL print the same as on SQLite, and what processes do whose output cannot be written.
import assert from 'node:assert/strict'
import { open } from 'node:fs/promises'
import { test } from 'node:test'
import { runInto } from '../support/cli.ts'
import { assertTranscript, ON_BOTH, setUpEmptyCli } from '../support/transcripts.ts'

for (const name of ON_BOTH) test(`${name}, on postgres`, () => assertTranscript('postgres', name))

test('an output that cannot be written is a failure, unless its reader has closed it, as after "| head"', async t => {
  const cli = await setUpEmptyCli()
  const full = await open('/dev/full', 'w')
  t.after(() => full.close())
  const add = (email: string) => ['users', 'add', email, '--name', 'A', '--generate']
  const lost = (email: string) =>
    `The password of ${email} was set but could not be printed: run "users set-password".\n`
  const noSpace = 'The output could not be written: ENOSPC: no space left on device, write.\n'
  const cases: [stdout: number | 'pipe', args: string[], code: number, said: string][] = [
    ['pipe', add('ann@example.org'), 1, lost('ann@example.org')],
    ['pipe', ['users', 'list', '--json'], 0, ''],
    ['pipe', ['--help'], 0, ''],
    [full.fd, add('bob@example.org'), 1, lost('bob@example.org')],
    [full.fd, ['users', 'list'], 1, noSpace],
  ]
  for (const [stdout, args, code, said] of cases) {
    const ended = await runInto(cli, stdout, args)
    assert.deepEqual([ended.code, ended.stderr.replace(/^\{.*\n/, '')], [code, said])
  }
})
