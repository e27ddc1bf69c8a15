// The service notices PgBouncer, and works behind every version in transaction mode. Needs `pgbouncer` on the PATH.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { query } from '../../support/engines.ts'
import { inParallel, own, ownFolder } from '../../support/own.ts'
import { eventually, freePort, UNPRIVILEGED } from '../../support/postgres-server.ts'
import { createDeployment, run, SERVE, type ServiceProcess, until } from '../../support/process.ts'
import { countStatuses } from '../../support/service.ts'
import { AUTH } from '../../support/session-client.ts'

const INSTANCES = 3
/** Fewer than the instances open together, so that they share connections of the server. */
const SERVER_CONNECTIONS = 3
/** The default. */
const PAIR_BUDGET = 5
const ROLE = 'pooled login'
const OWNER = 'owner@example.com'

describe('behind PgBouncer in transaction mode', async () => {
  const deployment = await createDeployment('postgres')
  const { rows } = deployment.database
  const url = new URL(deployment.env.DATABASE_URL ?? '')
  await rows(`drop role if exists "${ROLE}"`)
  await rows(`create role "${ROLE}" login`)
  await rows(`alter database ${url.pathname.slice(1)} owner to "${ROLE}"`)
  await rows(`drop schema public cascade; create schema public authorization "${ROLE}"`)
  const pooler = await own(startPgBouncer(url.port))
  after(deployment.remove)
  url.port = pooler.port
  url.username = ROLE
  const env = { ...deployment.env, DATABASE_URL: url.toString() }
  let services: ServiceProcess[] = []

  const runOnce = async (...command: string[]) => {
    const { exit, output } = run(env, { command: [...SERVE.slice(0, -1), ...command] })
    return { code: (await exit).code, output: output() }
  }

  test('a start is refused with the statements that give the role its settings', async () => {
    const { code, output } = await runOnce('serve')
    assert.equal(code, 1)
    const [, statements = ''] =
      /cannot be used: a pooler is in between.* run "(.*)", then/.exec(output) ?? []
    const settings = [
      ...["statement_timeout = '1300ms'", "lock_timeout = '1200ms'"],
      ...[
        "idle_in_transaction_session_timeout = '900ms'",
        "plan_cache_mode = 'force_generic_plan'",
      ],
      ...["enable_seqscan = 'off'", "enable_bitmapscan = 'off'", "jit = 'off'"],
    ]
    const expected = settings.map(setting => `alter role "${ROLE}" set ${setting}`)
    assert.deepEqual(statements.split('; '), expected)
    assert.ok((await runOnce('doctor')).output.includes(statements))
    const left = await query(env.DATABASE_URL ?? '', 'show plan_cache_mode')
    assert.deepEqual(left, [{ plan_cache_mode: 'auto' }], 'nothing was set for others')

    for (const statement of statements.split('; ')) await rows(statement)
    await pooler.reconnect()
    await until(async () => (await runOnce('database', 'status')).code === 0)
    // All of them set up the empty database at once.
    services = await inParallel(INSTANCES, () => deployment.start(env))
    await deployment.addUser(OWNER)
  })

  const serviceAt = (index: number) => services[index % INSTANCES] ?? assert.fail()

  test('logins, refreshes and logouts succeed', async () => {
    const logins = await inParallel(30, index => serviceAt(index).login(OWNER))
    assert.deepEqual(countStatuses(logins), { 200: 30 })
    const send = (path: string) =>
      inParallel(30, index => {
        const { refreshToken } = logins[index]?.json.data ?? {}
        return serviceAt(index).call({ path: `${AUTH}/${path}`, body: { refreshToken } })
      })
    assert.deepEqual(countStatuses(await send('refresh')), { 200: 30 })
    assert.deepEqual(countStatuses(await send('logout')), { 200: 30 })
  })

  test('parallel first attempts at new accounts are all counted, and no transaction stays open', async () => {
    const emails = ['first@example.com', 'second@example.com', 'third@example.com']
    for (const email of emails) await deployment.addUser(email)
    const answers = await inParallel(emails.length * 10, index =>
      serviceAt(index % 10).login(emails[index % emails.length] ?? '', 'wrong'),
    )
    const failures = emails.length * PAIR_BUDGET
    assert.deepEqual(countStatuses(answers), { 401: failures, 429: answers.length - failures })
    const counted =
      await rows(`select scope, sum(failures)::int as failures, sum(pending)::int as pending
      from login_throttle where failures > 0 group by scope order by scope`)
    assert.deepEqual(
      counted,
      ['client', 'email', 'pair'].map(scope => ({ scope, failures, pending: 0 })),
    )
    const servers = await rows(
      `select distinct state from pg_stat_activity where usename = '${ROLE}'`,
    )
    assert.deepEqual(servers, [{ state: 'idle' }])
  })
})

async function startPgBouncer(serverPort: string) {
  const folder = await ownFolder()
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
  const child = spawn('pgbouncer', ['--quiet', file], { ...identity, stdio: 'inherit' })
  const ask = (statement: string) =>
    query(`postgres://console@127.0.0.1:${port}/pgbouncer`, statement)
  await eventually(() => ask('show version'))
  return {
    port,
    reconnect: () => ask('reconnect'),
    async stop() {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}
