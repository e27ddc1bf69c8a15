// How the scripts of package.json start: on the machine's own Node or on the pinned Node.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { join, relative } from 'node:path'
import { describe, test } from 'node:test'
import packageJson from '../../package.json' with { type: 'json' }
import { LAUNCH, NO_PINNED_NODE, oldNode, preload } from '../support/old-node.ts'
import { eventsOf, ownFolder } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import {
  PROJECT,
  type RunningProcess,
  run,
  runOwned,
  SERVE,
  stop,
  until,
} from '../support/process.ts'

const [node = '', ...serve] = SERVE
const folder = await ownFolder()

test('no script contains syntax that only a POSIX shell understands', () => {
  for (const [name, script] of Object.entries(packageJson.scripts)) {
    // On Windows, exec.cmd stands for the "exec" of a POSIX shell.
    assert.doesNotMatch(script.replace(/^exec node /, 'node '), /\bexec\b|['$;]|\.\//, name)
  }
})

test('no file that a script starts depends on import.meta.main, which the launcher makes false', async () => {
  const started = Object.values(packageJson.scripts).flatMap(script =>
    [...script.matchAll(/launch\.cjs (?:--\S+ )*(\S+\.ts)/g)].map(([, file = '']) => file),
  )
  assert.ok(started.includes('tools/generate.ts'))
  for (const file of started) {
    assert.doesNotMatch(await readFile(join(PROJECT, file), 'utf8'), /import\.meta\.main/, file)
  }
})

describe('an older Node', { concurrency: true, skip: NO_PINNED_NODE }, () => {
  const start = (name: string, ...preloads: string[]) =>
    runOwned(
      { DATA_DIR: join(folder, name) },
      { command: [node, ...oldNode(), ...preloads, ...serve], hasOwnGroup: true },
    )

  test('runs the pinned Node with its arguments, and exits with its code', async () => {
    const command = [node, ...oldNode(), LAUNCH, 'src/main.ts', 'users', 'no-such-command']
    const ended = run({}, { command })
    assert.deepEqual(await ended.exit, { code: 2, signal: null })
    assert.match(ended.output(), /^Unknown command 'no-such-command'/)
  })

  test('forwards a signal to the pinned Node, and ends by the signal that ended it', async () => {
    const fatal = "process.on('SIGHUP', () => process.kill(process.pid, 'SIGKILL'))"
    const service = start('signal', ...preload(`if (process.env.LAUNCHER_PID) ${fatal}`))
    await service.line('service.started')
    service.kill('SIGHUP')
    assert.deepEqual(await service.exit, { code: null, signal: 'SIGKILL' })
  })

  test('that is killed leaves no running service: the service drains and stops', async () => {
    const service = start('orphan')
    await service.line('service.started')
    service.kill('SIGKILL')
    await assertDrained(service)
  })

  test('that is killed before the pinned Node is ready leaves no running process', async () => {
    const killLauncher = "if (process.env.LAUNCHER_PID) process.kill(process.ppid, 'SIGKILL')"
    const service = start('early', ...preload(killLauncher))
    assert.deepEqual(await service.exit, { code: null, signal: 'SIGKILL' })
  })
})

describe('an older Node says what to install', { concurrency: true }, () => {
  const REFUSALS: [string, Record<string, string>, RegExp][] = [
    [
      'there is no pinned Node for its platform',
      { platform: 'darwin', arch: 'arm64' },
      /^The packages bring none for darwin-arm64 \(only for linux-arm64, linux-x64, win-x64\): install/m,
    ],
    [
      'the optional packages were left out',
      process.platform === 'win32' ? { platform: 'linux' } : { platform: 'win32', arch: 'x64' },
      /^The package node-\S+, which brings one, was left out: run "npm ci" without --omit=optional, or/m,
    ],
  ]
  for (const [reason, facts, told] of REFUSALS) {
    test(`if ${reason}`, async () => {
      const ended = run({}, { command: [node, ...oldNode(facts), ...serve] })
      assert.deepEqual(await ended.exit, { code: 1, signal: null })
      const output = ended.output()
      assert.match(output, /^This service needs Node 24 or newer; this is v20\.19\.0 \(\/.*\)\.\n/)
      assert.match(output, told)
      assert.match(output, /install Node 24 or newer \(https:\/\/nodejs\.org\)\.\n$/)
      assert.doesNotMatch(output, /^ {4}at /m)
    })
  }
})

describe('when npm is killed, the service drains and stops', { concurrency: true }, () => {
  for (const signal of ['SIGHUP', 'SIGKILL'] as const) {
    test(`by ${signal}`, async () => {
      const env = { DATA_DIR: join(folder, `npm${signal}`) }
      const service = runOwned(env, { command: ['npm', 'start'], cwd: PROJECT, hasOwnGroup: true })
      await service.line('service.started')
      service.kill(signal)
      await assertDrained(service)
    })
  }
})

test('a file that awaits a promise that never settles exits with code 13', async () => {
  const file = join(folder, 'unsettled.mjs')
  await writeFile(file, 'await new Promise(() => {})')
  const { exit } = run({}, { command: [node, LAUNCH, relative(PROJECT, file)] })
  assert.deepEqual(await exit, { code: 13, signal: null })
})

/** `exit` resolves when the last process that holds the outputs has ended. */
async function assertDrained(service: RunningProcess): Promise<void> {
  await service.exit
  assert.deepEqual(eventsOf(service.lines()).slice(-2), ['service.stopping', 'service.stopped'])
}

test('of the warnings of Node, only those about type stripping and SQLite are hidden', async () => {
  const warnings = ['Type Stripping', 'SQLite', 'Something else']
    .map(feature => `process.emitWarning('${feature} is an experimental feature', 'X')`)
    .join(';')
  const command = [node, ...preload(`process.on('SIGUSR2', () => { ${warnings} })`), ...serve]
  const service = runOwned({ DATA_DIR: join(folder, 'warnings') }, { command })
  await service.line('service.started')
  service.kill('SIGUSR2')
  await until(async () => service.output().includes('Something else is'))
  assert.doesNotMatch(service.output(), /Type Stripping|SQLite/)
})

describe('SIGUSR1 opens no inspector', { concurrency: true }, () => {
  const NODES: [string, string[], string | false][] = [
    ['own', [], false],
    ['pinned', oldNode(), NO_PINNED_NODE],
  ]
  for (const [name, preloads, skip] of NODES) {
    test(`on the ${name} Node`, { skip }, async () => {
      const port = await freePort()
      const service = runOwned(
        { DATA_DIR: join(folder, `inspector-${name}`) },
        { command: [node, `--inspect-port=127.0.0.1:${port}`, ...preloads, ...serve] },
      )
      await service.line('service.started')
      service.kill('SIGUSR1')
      // Answered after the signal has arrived.
      service.kill('SIGHUP')
      await service.line('keys.reloaded')
      const inspector = createConnection(port, '127.0.0.1')
      const [error] = await once(inspector, 'error')
      assert.equal(error.code, 'ECONNREFUSED')
      await stop(service)
      assert.doesNotMatch(service.output(), /Debugger/)
    })
  }
})
