// DATABASE_POOLER=transaction works with every PgBouncer in transaction mode. Needs `pgbouncer` on the PATH.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmod, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { openStore } from '../../src/storage/open-store.ts'
import { createTestDatabase, query, type TestDatabase } from '../engines.ts'
import { freePort, UNPRIVILEGED } from '../postgres-server.ts'
import {
  createDeployment,
  type Deployment,
  PROJECT,
  run,
  type ServiceProcess,
  until,
} from '../process.ts'
import { countStatuses, PASSWORD, TEST_COST } from '../service.ts'
import { AUTH } from '../session-client.ts'
import { changeAt } from '../storage/fixtures.ts'
import { makeTemporaryFolder } from '../temporary-folder.ts'

const INSTANCES = 3
/** Fewer than the instances open together, so that they share connections of the server. */
const SERVER_CONNECTIONS = 3
const ROLE = 'pooled login'
const OWNER = 'owner@example.com'
const VICTIM = 'victim@example.com'

describe('behind PgBouncer in transaction mode', () => {
  let deployment: Deployment
  let database: TestDatabase
  let pooler: Pooler
  let services: ServiceProcess[] = []
  let env: Record<string, string>
  before(async () => {
    deployment = await createDeployment('postgres')
    database = await createTestDatabase('postgres')
    const url = new URL(database.config.engine === 'postgres' ? database.config.url : '')
    await database.rows(`drop role if exists "${ROLE}"`)
    await database.rows(`create role "${ROLE}" login`)
    await database.rows(`alter database ${url.pathname.slice(1)} owner to "${ROLE}"`)
    pooler = await startPgBouncer(url.port)
    url.port = pooler.port
    url.username = ROLE
    env = { DATABASE_URL: url.toString(), DATABASE_POOLER: 'transaction' }
    // All of them set up the empty database at once.
    services = await Promise.all(
      Array.from({ length: INSTANCES }, () => deployment.start({ ...env })),
    )
    const store = await openStore(database.config)
    const passwordHash = await bcrypt.hash(PASSWORD, TEST_COST)
    for (const email of [OWNER, VICTIM]) {
      const user = { id: randomUUID(), email, name: 'Test', role: 'user' }
      await store.users.insert({ ...user, passwordHash }, changeAt())
    }
    await store.close()
  })
  after(async () => {
    await deployment.remove()
    await pooler?.stop()
    await database.drop()
    await deployment.database.rows(`drop role "${ROLE}"`).catch(() => {})
  })

  const onAll = <T>(
    count: number,
    action: (service: ServiceProcess, index: number) => Promise<T>,
  ) =>
    Promise.all(
      Array.from({ length: count }, (_, index) => {
        const service = services[index % services.length]
        assert.ok(service)
        return action(service, index)
      }),
    )

  test('logins, refreshes and logouts succeed', async () => {
    const logins = await onAll(30, service => service.login(OWNER))
    assert.deepEqual(countStatuses(logins), { 200: 30 })
    const send = (path: string) =>
      onAll(30, (service, index) => {
        const { refreshToken } = logins[index]?.json.data ?? {}
        return service.call({ path: `${AUTH}/${path}`, body: { refreshToken } })
      })
    assert.deepEqual(countStatuses(await send('refresh')), { 200: 30 })
    assert.deepEqual(countStatuses(await send('logout')), { 200: 30 })
  })

  test('a start without DATABASE_POOLER fails, and names the variable', async () => {
    const { DATABASE_URL = '' } = env
    const { exit, output } = run({ ...deployment.env, DATABASE_URL })
    assert.equal((await exit).code, 1)
    assert.match(
      output(),
      /cannot be used: unsupported startup parameter.*DATABASE_POOLER=transaction/,
    )
  })

  test('of 60 wrong guesses, 5 are verified', async () => {
    const guesses = await onAll(60, (service, index) => service.login(VICTIM, `guess ${index}`))
    assert.deepEqual(countStatuses(guesses), { 401: 5, 429: 55 })
  })

  test('the doctor names the statements that give the role its settings', async () => {
    const doctor = async () => {
      const command = [process.execPath, join(PROJECT, 'launch.cjs'), 'src/main.ts', 'doctor']
      const { exit, output } = run({ ...deployment.env, ...env }, { command, cwd: PROJECT })
      await exit
      return output()
    }
    const [, statements = ''] =
      /role +warning +lacks settings.*: run "(.*)", then/.exec(await doctor()) ?? []
    assert.equal(
      statements,
      [
        ...['statement_timeout = 1300', 'lock_timeout = 1200'],
        ...['idle_in_transaction_session_timeout = 5000', 'plan_cache_mode = force_generic_plan'],
        ...['enable_seqscan = off', 'enable_bitmapscan = off', 'jit = off'],
      ]
        .map(setting => `alter role "${ROLE}" set ${setting}`)
        .join('; '),
    )
    for (const statement of statements.split('; ')) await database.rows(statement)
    await pooler.reconnect()
    await until(async () => /role +ok +has the time limits/.test(await doctor()))

    const statuses = countStatuses(await onAll(30, service => service.login(OWNER)))
    assert.deepEqual(statuses, { 200: 30 })
    const late = await deployment.start({ ...env })
    assert.equal((await late.login(OWNER)).status, 200, 'migrations ignore the limits of the role')
  })
})

type Pooler = { port: string; reconnect: () => Promise<unknown>; stop: () => Promise<void> }

async function startPgBouncer(serverPort: string): Promise<Pooler> {
  const folder = await makeTemporaryFolder('login-pgbouncer-')
  await chmod(folder, 0o755)
  const port = String(await freePort())
  const file = join(folder, 'pgbouncer.ini')
  await writeFile(join(folder, 'users.txt'), `"${ROLE}" ""\n"console" ""\n`)
  await writeFile(
    file,
    `[databases]
* = host=127.0.0.1 port=${serverPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${join(folder, 'users.txt')}
admin_users = console
pool_mode = transaction
default_pool_size = ${SERVER_CONNECTIONS}
`,
  )
  // It refuses to run as root.
  const identity = process.getuid?.() === 0 ? UNPRIVILEGED : {}
  const child: ChildProcess = spawn('pgbouncer', ['--quiet', file], {
    ...identity,
    stdio: 'inherit',
  })
  const ask = (statement: string) =>
    query(`postgres://console@127.0.0.1:${port}/pgbouncer`, statement)
  await until(() =>
    ask('show version').then(
      () => true,
      () => false,
    ),
  )
  return {
    port,
    reconnect: () => ask('reconnect'),
    async stop() {
      child.kill('SIGKILL')
      await once(child, 'exit')
      await rm(folder, { recursive: true })
    },
  }
}
