// Several starts at once, starts that fail, and faults that end the service; and how the scripts of package.json start: on
// the machine's own Node or on the pinned Node.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { createConnection, createServer } from 'node:net'
import { hostname } from 'node:os'
import { join, relative } from 'node:path'
import { after, describe, test } from 'node:test'
import packageJson from '../../package.json' with { type: 'json' }
import { createTestDatabase } from '../support/engines.ts'
import { LAUNCH, NO_PINNED_NODE, oldNode, preload } from '../support/old-node.ts'
import { eventsOf, inParallel, ownFolder } from '../support/own.ts'
import { freePort, UNPRIVILEGED } from '../support/postgres-server.ts'
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
const FAILED = { code: 1, signal: null }

test('three processes start at once on an empty PostgreSQL database and all become ready', async () => {
  const database = await createTestDatabase('postgres')
  const { config } = database
  const env = {
    DATA_DIR: join(folder, 'three'),
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
  }
  const services = await inParallel(3, async () => {
    const OPS_PORT = String(await freePort())
    return { ...runOwned({ ...env, OPS_PORT }), OPS_PORT }
  })
  after(database.drop)
  for (const { line, OPS_PORT } of services) {
    await line('service.started')
    assert.equal((await fetch(`http://127.0.0.1:${OPS_PORT}/readyz`)).status, 200)
  }
  await Promise.all(services.map(stop))
})

test('of several services on one SQLite database one starts, the others name its process; commands work; a killed one leaves no lock; the next one waits for the end of a drain', async () => {
  const env = { DATA_DIR: join(folder, 'alone') }
  const services = await inParallel(3, () => runOwned(env))
  const started = await Promise.any(
    services.map(async service => {
      await service.line('service.started')
      return service
    }),
  )
  for (const { exit, output } of services.filter(service => service !== started)) {
    assert.deepEqual(await exit, FAILED)
    const [waiting = '', refused = ''] = output().trim().split('\n')
    const named = `Another service (process ${started.pid} on ${hostname()}) uses the SQLite database`
    assert.equal(JSON.parse(waiting).event, 'service.warning')
    assert.ok(refused.startsWith(named), refused)
    assert.match(refused, /Stop it first, or set another DATA_DIR\./)
  }
  const add = ['users', 'add', 'kate@example.com', '--name', 'Kate', '--generate']
  assert.equal((await run(env, { command: [...SERVE.slice(0, -1), ...add] }).exit).code, 0)
  started.kill('SIGKILL')
  await started.exit
  const old = runOwned(env)
  await old.line('service.started')
  assert.ok(!old.lines().some(({ event }) => event === 'service.warning'))
  const next = runOwned(env)
  await next.line('service.warning')
  await stop(old)
  await next.line('service.started')
})

test('a data folder of another user is named with its owner', {
  skip: process.getuid?.() !== 0 && 'only root can start a process as another user',
}, async () => {
  await chmod(folder, 0o755)
  const DATA_DIR = join(folder, 'of-root')
  await mkdir(DATA_DIR)
  const service = runOwned({ DATA_DIR }, { identity: UNPRIVILEGED })
  assert.deepEqual(await service.exit, FAILED)
  assert.equal(
    service.output(),
    `The data folder ${DATA_DIR} cannot be used: it belongs to the user with the id 0, and this process runs as ${UNPRIVILEGED.uid}. Run it as that user, or give the folder to this one (chown), or set DATA_DIR.\n`,
  )
})

describe('a start that fails prints the reason without a stack trace, and ends', {
  concurrency: true,
}, async () => {
  const [PORT, closed] = [String(await freePort()), await freePort()]
  const taken = createServer().listen(Number(PORT), '127.0.0.1')
  await once(taken, 'listening')
  after(() => taken.close())
  const file = join(folder, 'file')
  const SIGNING_KEYS_FILE = join(folder, 'keys')
  await writeFile(file, 'not a folder, a certificate or a key file')
  await writeFile(SIGNING_KEYS_FILE, '{"keys":[{"kty":"oct","k":"canary"}]}', { mode: 0o600 })

  const REFUSALS: [string, Record<string, string>, RegExp][] = [
    ['its port is taken', { PORT }, /^Port \d+ is taken: .* set PORT\.\n$/],
    [
      'the port of its health endpoints is taken',
      { OPS_PORT: PORT },
      /^Port \d+ is taken: .* set OPS_PORT\.\n$/,
    ],
    [
      'its address does not belong to this machine',
      { HOST: '203.0.113.1' },
      /^203\.0\.113\.1:0 cannot be listened on \(EADDRNOTAVAIL\): set HOST or PORT\.\n$/,
    ],
    [
      'the database server does not answer',
      { DATABASE_URL: `postgres://u:canary@localhost:${closed}/login` },
      /^PostgreSQL postgres:\/\/u:\*\*\*@localhost:\d+\/login cannot be used: .*ECONNREFUSED/,
    ],
    [
      'its data folder cannot be made',
      { DATA_DIR: join(file, 'data') },
      /^The data folder \S+ cannot be made: ENOTDIR/,
    ],
    [
      'one of its keys is too weak',
      { SIGNING_KEYS_FILE },
      /^The key file \S+ cannot be used: key 1: a secret needs at least 32 bytes\./,
    ],
    [
      'its certificate is not a certificate',
      { TLS_CERT_FILE: file, TLS_KEY_FILE: file },
      /^The TLS certificate cannot be used: /,
    ],
    [
      'nothing is set in production',
      { NODE_ENV: 'production', BCRYPT_COST: '', JWT_ISSUER: '', OPS_PORT: '', PORT: '' },
      /TLS_CERT_FILE.*SIGNING_KEYS_FILE.*JWT_ISSUER/s,
    ],
  ]
  for (const [index, [reason, env, text]] of REFUSALS.entries()) {
    test(`because ${reason}`, async () => {
      const service = runOwned({ DATA_DIR: join(folder, String(index)), ...env })
      const isConfigured = !('NODE_ENV' in env)
      assert.deepEqual(await service.exit, { code: isConfigured ? 1 : 2, signal: null })
      const said = service.output().replace(/^\{.*\}\n/gm, '')
      assert.match(said, text)
      assert.doesNotMatch(said, /^ {4}at |node:internal/m)
      assert.ok(!service.output().includes('canary'))
      assert.ok(!service.lines().some(line => line.event === 'service.started'))
    })
  }
})

describe('an uncaught fault is logged in one line without secrets, and ends the process', {
  concurrency: true,
}, () => {
  const FAULTS: [string, string, object][] = [
    [
      'an exception',
      'throw Object.assign(new Error("boom"), { detail: CANARY, password: CANARY })',
      { type: 'Error', message: 'boom' },
    ],
    ['a rejection with text', 'Promise.reject(CANARY)', { message: 'string' }],
  ]
  for (const [index, [fault, statement, told]] of FAULTS.entries()) {
    test(fault, async () => {
      const bomb = `const { CANARY } = process.env; process.on('SIGUSR2', () => { ${statement} })`
      const env = { DATA_DIR: join(folder, `fault${index}`), CANARY: 'canary' }
      const service = runOwned(env, { command: [node, ...preload(bomb), ...serve] })
      await service.line('service.started')
      service.kill('SIGUSR2')
      assert.deepEqual(await service.exit, FAILED)
      const last = service.lines().at(-1)
      assert.equal(service.lines().filter(({ level }) => level === 'fatal').length, 1)
      assert.deepEqual([last?.level, last?.event], ['fatal', 'service.crashed'])
      assert.partialDeepStrictEqual(last?.err, told)
      assert.ok(!service.output().includes('canary'))
      assert.equal(service.output().replace(/^\{.*\}\n/gm, ''), '')
    })
  }
})

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
