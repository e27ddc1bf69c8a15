// Several starts at once, starts that fail, and faults that end the service.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createTestDatabase } from '../support/engines.ts'
import { freePort, UNPRIVILEGED } from '../support/postgres-server.ts'
import { run, SERVE } from '../support/process.ts'

let folder: string
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'login-service-'))
})
after(() => rm(folder, { recursive: true }))

test('three processes start at once on an empty PostgreSQL database and all become ready', async t => {
  const database = await createTestDatabase('postgres')
  const { config } = database
  const env = {
    DATA_DIR: join(folder, 'three'),
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
  }
  const opsPorts = await Promise.all(Array.from({ length: 3 }, freePort))
  const services = opsPorts.map(port => ({ port, ...run({ ...env, OPS_PORT: String(port) }) }))
  t.after(async () => {
    for (const { kill } of services) kill('SIGKILL')
    await database.drop()
  })
  for (const { line, port } of services) {
    await line('service.started')
    assert.equal((await fetch(`http://127.0.0.1:${port}/readyz`)).status, 200)
  }
  for (const { kill } of services) kill('SIGTERM')
  for (const { exit } of services) assert.deepEqual(await exit, { code: 0, signal: null })
})

describe('of several services on one SQLite database', () => {
  const env = () => ({ DATA_DIR: join(folder, 'alone') })
  const users = [...SERVE.slice(0, -1), 'users']

  test('one starts, the others name its process; commands work; a killed one leaves no lock', async t => {
    const services = Array.from({ length: 3 }, () => run(env()))
    t.after(() => {
      for (const { kill } of services) kill('SIGKILL')
    })
    const started = await Promise.any(
      services.map(async service => {
        await service.line('service.started')
        return service
      }),
    )
    const others = services.filter(service => service !== started)
    for (const { exit, output } of others) {
      assert.deepEqual(await exit, { code: 1, signal: null })
      const [waiting = '', refused = ''] = output().trim().split('\n')
      const named = `Another service (process ${started.pid} on ${hostname()}) uses the SQLite database`
      assert.equal(JSON.parse(waiting).event, 'service.warning')
      assert.ok(refused.startsWith(named), refused)
      assert.match(refused, /Stop it first, or set another DATA_DIR\./)
    }
    const add = ['add', 'kate@example.com', '--name', 'Kate', '--generate']
    assert.deepEqual(await run(env(), { command: [...users, ...add] }).exit, {
      code: 0,
      signal: null,
    })
    started.kill('SIGKILL')
    await started.exit
    const next = run(env())
    t.after(() => next.kill('SIGKILL'))
    await next.line('service.started')
    assert.ok(!next.lines().some(({ event }) => event === 'service.warning'))
  })

  test('one that starts while the other drains waits for its end', async t => {
    const old = run({ DATA_DIR: join(folder, 'restart') })
    t.after(() => old.kill('SIGKILL'))
    await old.line('service.started')
    const next = run({ DATA_DIR: join(folder, 'restart') })
    t.after(() => next.kill('SIGKILL'))
    await next.line('service.warning')
    old.kill('SIGTERM')
    await next.line('service.started')
    assert.deepEqual(await old.exit, { code: 0, signal: null })
  })
})

test('a data folder of another user is named with its owner', {
  skip: process.getuid?.() !== 0 && 'only root can start a process as another user',
}, async t => {
  await chmod(folder, 0o755)
  const DATA_DIR = join(folder, 'of-root')
  await mkdir(DATA_DIR)
  const service = run({ DATA_DIR }, { identity: UNPRIVILEGED })
  t.after(() => service.kill('SIGKILL'))
  assert.deepEqual(await service.exit, { code: 1, signal: null })
  assert.equal(
    service.output(),
    `The data folder ${DATA_DIR} cannot be used: it belongs to the user with the id 0, and this process runs as ${UNPRIVILEGED.uid}. Run it as that user, or give the folder to this one (chown), or set DATA_DIR.\n`,
  )
})

describe('a start that fails prints the reason without a stack trace, and ends', {
  concurrency: true,
}, () => {
  const port = createServer()
  let takenPort: string
  let closedPort: number
  before(async () => {
    takenPort = String(await freePort())
    closedPort = await freePort()
    port.listen(Number(takenPort), '127.0.0.1')
    await once(port, 'listening')
    await writeFile(join(folder, 'file'), 'not a folder, a certificate or a key file')
    await writeFile(join(folder, 'keys'), '{"keys":[{"kty":"oct","k":"canary"}]}', { mode: 0o600 })
  })
  after(() => port.close())

  const REFUSALS: [string, () => Record<string, string>, number, RegExp[]][] = [
    ['its port is taken', () => ({ PORT: takenPort }), 1, [/^Port \d+ is taken: .* set PORT\.\n$/]],
    [
      'the port of its health endpoints is taken',
      () => ({ OPS_PORT: takenPort }),
      1,
      [/^Port \d+ is taken: .* set OPS_PORT\.\n$/],
    ],
    [
      'its address does not belong to this machine',
      () => ({ HOST: '203.0.113.1' }),
      1,
      [/^203\.0\.113\.1:0 cannot be listened on \(EADDRNOTAVAIL\): set HOST or PORT\.\n$/],
    ],
    [
      'the database server does not answer',
      () => ({ DATABASE_URL: `postgres://u:canary@localhost:${closedPort}/login` }),
      1,
      [/^PostgreSQL postgres:\/\/u:\*\*\*@localhost:\d+\/login cannot be used: .*ECONNREFUSED/],
    ],
    [
      'its data folder cannot be made',
      () => ({ DATA_DIR: join(folder, 'file', 'data') }),
      1,
      [/^The data folder \S+ cannot be made: ENOTDIR/],
    ],
    [
      'one of its keys is too weak',
      () => ({ SIGNING_KEYS_FILE: join(folder, 'keys') }),
      1,
      [/^The key file \S+ cannot be used: key 1: a secret needs at least 32 bytes\./],
    ],
    [
      'its certificate is not a certificate',
      () => ({ TLS_CERT_FILE: join(folder, 'file'), TLS_KEY_FILE: join(folder, 'file') }),
      1,
      [/^The TLS certificate cannot be used: /],
    ],
    [
      'nothing is set in production',
      () => ({ NODE_ENV: 'production', BCRYPT_COST: '', JWT_ISSUER: '', OPS_PORT: '', PORT: '' }),
      2,
      [/TLS_CERT_FILE/, /SIGNING_KEYS_FILE/, /JWT_ISSUER/],
    ],
  ]
  for (const [index, [reason, env, code, texts]] of REFUSALS.entries()) {
    test(`because ${reason}`, async t => {
      const dataDir = join(folder, String(index))
      const service = run({ DATA_DIR: dataDir, ...env() })
      t.after(() => service.kill('SIGKILL'))
      assert.deepEqual(await service.exit, { code, signal: null })
      const said = service.output().replace(/^\{.*\}\n/gm, '')
      for (const text of texts) assert.match(said, text)
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
    ['a rejection', 'Promise.reject(new Error("boom"))', { type: 'Error', message: 'boom' }],
    ['a rejection with text', 'Promise.reject(CANARY)', { message: 'string' }],
  ]
  for (const [index, [fault, statement, told]] of FAULTS.entries()) {
    test(fault, async t => {
      const bomb = `const { CANARY } = process.env; process.on('SIGUSR2', () => { ${statement} })`
      const [node = '', ...args] = SERVE
      const preload = ['--import', `data:text/javascript,${bomb}`]
      const env = { DATA_DIR: join(folder, `fault${index}`), CANARY: 'canary' }
      const service = run(env, { command: [node, ...preload, ...args] })
      t.after(() => service.kill('SIGKILL'))
      await service.line('service.started')
      service.kill('SIGUSR2')
      assert.deepEqual(await service.exit, { code: 1, signal: null })
      const last = service.lines().at(-1)
      assert.equal(service.lines().filter(({ level }) => level === 'fatal').length, 1)
      assert.equal(last?.level, 'fatal')
      assert.equal(last?.event, 'service.crashed')
      assert.partialDeepStrictEqual(last?.err, told)
      assert.ok(!service.output().includes('canary'))
      const notJson = service.output().replace(/^\{.*\}\n/gm, '')
      assert.equal(notJson, '')
    })
  }
})
