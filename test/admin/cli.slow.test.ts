// The commands on PostgreSQL print the same as on SQLite, and what processes do whose output cannot be written.
import assert from 'node:assert/strict'
import { type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { MAIN } from '../support/cli.ts'
import { assertTranscript, ON_BOTH, setUpEmptyCli } from '../support/transcripts.ts'

for (const name of ON_BOTH) test(`${name}, on postgres`, () => assertTranscript('postgres', name))

describe('an output that cannot be written', () => {
  const ADD = ['users', 'add', 'ann@example.org', '--name', 'Ann', '--generate']
  const LOST =
    'The password of ann@example.org was set but could not be printed: run "users set-password".\n'

  test('is no failure if its reader has closed it, as after "| head"', async () => {
    const { env, folder } = await setUpEmptyCli()
    for (const [args, code, said] of [
      [ADD, 1, LOST],
      [['users', 'list', '--json'], 0, ''],
      [['--help'], 0, ''],
    ] as const) {
      const child = spawn(process.execPath, [MAIN, ...args], { cwd: folder, env })
      child.stdout.destroy()
      const [stderr, [ended]] = await Promise.all([text(child.stderr), once(child, 'close')])
      assert.equal(ended, code)
      assert.equal(stderr.replace(/^\{.*\n/, ''), said)
    }
  })

  test('is a failure if the disk is full', async t => {
    const { env, folder } = await setUpEmptyCli()
    const full = await open('/dev/full', 'w')
    t.after(() => full.close())
    for (const [args, said] of [
      [ADD, LOST],
      [
        ['users', 'list'],
        'The output could not be written: ENOSPC: no space left on device, write.\n',
      ],
    ] as const) {
      const stdio: StdioOptions = ['ignore', full.fd, 'pipe']
      const child = spawn(process.execPath, [MAIN, ...args], { cwd: folder, env, stdio })
      assert.ok(child.stderr)
      const [stderr, [ended]] = await Promise.all([text(child.stderr), once(child, 'close')])
      assert.equal(ended, 1)
      assert.equal(stderr.replace(/^\{.*\n/, ''), said)
    }
  })
})
