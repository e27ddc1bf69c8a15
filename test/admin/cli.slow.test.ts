// The commands on PostgreSQL print the same as on SQLite, and what processes do whose output cannot be written.
import assert from 'node:assert/strict'
import { type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { MAIN } from '../support/cli.ts'
import { assertTranscript, ON_BOTH, setUpEmptyCli } from '../support/transcripts.ts'

for (const name of ON_BOTH) test(`${name}, on postgres`, () => assertTranscript('postgres', name))

test('an output that cannot be written is a failure, unless its reader has closed it, as after "| head"', async t => {
  const { env, folder } = await setUpEmptyCli()
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
    const stdio: StdioOptions = ['ignore', stdout, 'pipe']
    const child = spawn(process.execPath, [MAIN, ...args], { cwd: folder, env, stdio })
    child.stdout?.destroy()
    assert.ok(child.stderr)
    const [stderr, [ended]] = await Promise.all([text(child.stderr), once(child, 'close')])
    assert.deepEqual([ended, stderr.replace(/^\{.*\n/, '')], [code, said])
  }
})
