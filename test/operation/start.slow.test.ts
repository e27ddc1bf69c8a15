// Several starts at once, starts that fail, and faults that end the service.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { createTestDatabase } from '../support/engines.ts'
import { preload } from '../support/old-node.ts'
import { inParallel, ownFolder } from '../support/own.ts'
import { freePort, UNPRIVILEGED } from '../support/postgres-server.ts'
import { run, runOwned, SERVE, stop } from '../support/process.ts'

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
      const [node = '', ...args] = SERVE
      const env = { DATA_DIR: join(folder, `fault${index}`), CANARY: 'canary' }
      const service = runOwned(env, { command: [node, ...preload(bomb), ...args] })
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
