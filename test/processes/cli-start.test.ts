// How a command starts: by npx, with options of Node that suit it, and with no library that it does not need.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { setUpCli } from '../cli.ts'
import { LAUNCH, NO_PINNED_NODE, oldNode, preload } from '../old-node.ts'
import { PROJECT } from '../process.ts'
import { assertTranscript } from '../transcripts.ts'

const execute = promisify(execFile)
const LOGIN_SERVICE = join(PROJECT, 'login-service.cjs')

const cli = await setUpCli()

test('npx runs a command without a question and without the network', async () => {
  // Nothing listens at this address.
  const env = { ...cli.env, HOME: cli.folder, npm_config_registry: 'http://127.0.0.1:1' }
  const { stdout, stderr } = await execute('npx', ['login-service', 'users', 'list', '--json'], {
    cwd: PROJECT,
    env,
  })
  assert.deepEqual([stdout, stderr], ['[]\n', ''])
})

test('with a process per command, input, environment and exit codes are as in one process, and each ends', t =>
  assertTranscript(t, 'postgres', 'keys', 'runProcess'))

describe('commands get options of Node', () => {
  const USUAL = ['--max-semi-space-size=4']
  const SMALL = [...USUAL, '--v8-pool-size=0', '--max-old-space-size=64']
  const CASES: [command: string[], options: string[]][] = [
    [['users', 'list'], SMALL],
    [['keys', 'list', '--help'], SMALL],
    [['users', 'export'], USUAL],
    [['users', 'import', '-'], USUAL],
    [['serve', '--help'], USUAL],
  ]
  const print = preload(`if (process.env.LAUNCHER_PID) process.on('exit', () => {
    console.error('options:', ...process.execArgv.filter(word => /^--.*size/.test(word)))
  })`)
  for (const [name, old, skip] of [
    ['its own', [], false],
    ['the pinned', oldNode(), NO_PINNED_NODE],
  ] as const) {
    test(`on ${name} Node`, { skip }, async () => {
      for (const [command, options] of CASES) {
        const args = [...print, ...old, LOGIN_SERVICE, ...command]
        const ending = execute(process.execPath, args, { cwd: cli.folder, env: cli.env })
        ending.child.stdin?.end()
        const { stderr } = await ending.catch(error => error)
        assert.match(stderr, new RegExp(`^options: ${options.join(' ')}$`, 'm'), command.join(' '))
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
    const args = [...list, LAUNCH, 'src/main.ts', ...command.split(' ')]
    const ending = execute(process.execPath, args, { cwd: cli.folder, env: cli.env })
    const { stderr } = await ending.catch(error => error)
    assert.match(stderr, new RegExp(`^packages: ${packages}$`, 'm'), command)
  }
})
