// How a command starts: by its path, with options of Node that suit it, and with no library that it does not need. On
// PostgreSQL it prints the same as on SQLite. What it does whose output cannot be written.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { open, symlink, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import packageJson from '../../package.json' with { type: 'json' }
import { runInto, setUpCli } from '../support/cli.ts'
import { LAUNCH, NO_PINNED_NODE, oldNode, preload } from '../support/old-node.ts'
import { PROJECT } from '../support/process.ts'
import { IS_FULL } from '../support/proof.ts'
import { assertTranscript, ON_BOTH, setUpEmptyCli } from '../support/transcripts.ts'

const execute = promisify(execFile)
const LOGIN_SERVICE = join(PROJECT, 'login-service')

const cli = await setUpCli()

test('a command runs from any folder by its path, a link to it, the bin of npm and on an old Node', async () => {
  const link = join(cli.folder, 'link')
  await symlink(LOGIN_SERVICE, link)
  const bin = join(cli.folder, 'bin')
  await symlink(join(PROJECT, packageJson.bin), bin)
  // Node before 20.10 loads no file without an extension in a package of modules.
  const old = `case "$1" in *.cjs) exec '${process.execPath}' "$@" ;; esac; exit 9`
  await writeFile(join(cli.folder, 'node'), `#!/bin/sh\n${old}\n`, { mode: 0o755 })
  const options = {
    cwd: cli.folder,
    env: { ...cli.env, PATH: `${cli.folder}${delimiter}${process.env.PATH}` },
  }
  for (const [file, ...args] of [
    [LOGIN_SERVICE],
    [link],
    [process.execPath, LOGIN_SERVICE],
    [process.execPath, bin],
  ] as const) {
    const { stdout, stderr } = await execute(file, [...args, 'users', 'list', '--json'], options)
    assert.deepEqual([stdout, stderr], ['[]\n', ''], file)
  }
})

test('with a process per command, input, environment and exit codes are as in one process, and each ends', () =>
  assertTranscript('postgres', 'keys', 'runProcess'))

/** What a command writes to stderr that Node starts with these words before it. */
async function saidBy(words: string[], command: string): Promise<string> {
  const options = { cwd: cli.folder, env: cli.env }
  const ending = execute(process.execPath, [...words, ...command.split(' ')], options)
  ending.child.stdin?.end()
  const { stderr } = await ending.catch(error => error)
  return stderr
}

describe('commands get options of Node', () => {
  const USUAL = '--max-semi-space-size=4'
  const SMALL = `${USUAL} --v8-pool-size=0 --max-old-space-size=64`
  const CASES = [
    ['users list', SMALL],
    ['users export', USUAL],
    ['keys list --help', SMALL],
    ['users import -', USUAL],
    ['serve --help', USUAL],
  ] as const
  const print = preload(`if (process.env.LAUNCHER_PID) process.on('exit', () => {
    console.error('options:', ...process.execArgv.filter(word => /^--.*size/.test(word)))
  })`)
  for (const [name, old, skip, cases] of [
    ['its own', [], false, CASES],
    // The same options, given by the same function.
    ['the pinned', oldNode(), NO_PINNED_NODE, IS_FULL ? CASES : CASES.slice(0, 2)],
  ] as const) {
    test(`on ${name} Node`, { skip }, async () => {
      for (const [command, options] of cases) {
        const said = await saidBy([...print, ...old, LOGIN_SERVICE], command)
        assert.match(said, new RegExp(`^options: ${options}$`, 'm'), command)
      }
    })
  }
})

test('a command loads no library that it does not need', async () => {
  const list = preload(`const { registerHooks } = await import('node:module')
    const names = new Set()
    registerHooks({
      load(url, context, next) {
        const [, name] = /node_modules\\/(@[^/]+\\/[^/]+|[^/]+)/.exec(url) ?? []
        if (name) names.add(name)
        return next(url, context)
      },
    })
    process.on('exit', () => console.error('packages:', ...names))`)
  for (const [command, packages] of [
    ['users list', 'commander ipaddr.js kysely'],
    ['users add --help', 'commander ipaddr.js'],
    ['users lits', 'commander ipaddr.js'],
    ['serve --help', 'commander ipaddr.js'],
  ] as const) {
    const said = await saidBy([...list, LAUNCH, 'src/main.ts'], command)
    assert.match(said, new RegExp(`^packages: ${packages}$`, 'm'), command)
  }
})

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
