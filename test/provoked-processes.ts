// Provokes the events that processes and commands log, and returns the lines.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import bcrypt from 'bcrypt'
import pg from 'pg'
import { makeCertificate, writeCertificate } from './certificates.ts'
import { createCli } from './cli.ts'
import { createTestDatabase } from './engines.ts'
import { createMovedClock } from './moved-clock.ts'
import { freePort } from './postgres-server.ts'
import { createDeployment, type Line, type RunningProcess, run, SERVE, until } from './process.ts'
import { createAddresses, createClient, PASSWORD, TEST_COST, WITH_THREADS } from './service.ts'
import { stallDisk, withSlowDisk } from './slow-disk.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

const EMAIL = 'kate@example.com'

export async function provokeByProcesses(): Promise<Record<string, unknown>[]> {
  const lines = [
    overload(),
    operation(),
    endDuringStart(),
    migration(),
    commands(),
    manyConnections(),
  ]
  return (await Promise.all(lines)).flat()
}

/** More logins than fit into their time; then a hash that never ends and a disk that stalls, while the service stops. */
async function overload() {
  await using cleanup = new AsyncDisposableStack()
  const deployment = await createDeployment('sqlite', WITH_THREADS)
  cleanup.defer(deployment.remove)
  const disk = join(deployment.dataDir, 'slow')
  // From the signal on, no thread is told to hash.
  const hook = `import { Worker } from 'node:worker_threads'
    const { postMessage } = Worker.prototype
    process.once('SIGUSR2', () => {
      Worker.prototype.postMessage = function (message) {
        if (!('salt' in message)) postMessage.call(this, message)
      }
    })`
  const env = { ...withSlowDisk(disk), BCRYPT_COST: '13', LOGIN_TIME_MS: '500' }
  const service = await deployment.start(env, preloading(hook))
  const newAddress = createAddresses()
  const logins = Array.from({ length: 60 }, (_, i) =>
    service.call({
      body: { email: `user${i}@example.com`, password: 'wrong' },
      from: newAddress(),
    }),
  )
  await Promise.all(logins)

  service.kill('SIGUSR2')
  await service.line('log.level_changed')
  const endless = service.login(EMAIL).catch(() => null)
  const pending = () => deployment.database.rows('select * from login_throttle where pending > 0')
  await until(async () => (await pending()).length > 0)
  await stallDisk(disk)
  await until(async () => (await service.health('/readyz')) === 503)
  service.kill('SIGTERM')
  const page = { method: 'GET', path: '/login' }
  await until(async () => (await service.call(page)).status === 503)
  await Promise.all([service.exit, endless])
  return service.lines()
}

/** What the process itself logs: its start, its files, its clock, signals, readiness and its end. */
async function operation() {
  await using cleanup = new AsyncDisposableStack()
  const database = await createTestDatabase('postgres')
  cleanup.defer(database.drop)
  assert.ok(database.config.engine === 'postgres')
  const folder = await makeTemporaryFolder('login-events-')
  cleanup.defer(() => rm(folder, { recursive: true }))
  const clock = await createMovedClock(folder, 12_000)
  const files = await writeCertificate(folder, 'served')
  const opsPort = await freePort()
  const service = run({
    ...clock.env,
    ...files,
    DATA_DIR: folder,
    DATABASE_URL: database.config.url,
    ADMIN_PORT: String(await freePort()),
    OPS_PORT: String(opsPort),
  })
  cleanup.defer(() => kill(service))
  const { address } = await service.line('service.started')
  const client = await createClient(String(address), folder, files.TLS_CERT_FILE)
  await clock.move(0)
  await service.line('clock.right')

  service.kill('SIGUSR2')
  await service.line('log.level_changed')
  await client.call({ method: 'GET', path: '/login' })
  await service.line('request.answered')
  client.close()

  const isReady = async () => (await fetch(`http://127.0.0.1:${opsPort}/readyz`)).ok
  await database.rows('alter table readiness rename to hidden')
  await until(async () => !(await isReady()))
  await database.rows('alter table hidden rename to readiness')
  await until(isReady)

  service.kill('SIGHUP')
  await service.line('keys.reloaded')
  await writeFile(join(folder, 'signing-keys.json'), '{}')
  service.kill('SIGHUP')
  await service.line('keys.reload_failed')
  for (const [toDays, event] of [
    [5, 'tls.expiring'],
    [-1, 'tls.expired'],
  ] as const) {
    const { cert, key } = await makeCertificate({ fromDays: -9, toDays })
    await writeFile(files.TLS_KEY_FILE, key)
    await writeFile(files.TLS_CERT_FILE, cert)
    service.kill('SIGHUP')
    await service.line(event)
  }
  await writeFile(files.TLS_CERT_FILE, 'not a certificate')
  service.kill('SIGHUP')
  await service.line('tls.reload_failed')
  return await linesUntilEnd(service, 'SIGTERM')
}

async function kill(service: RunningProcess): Promise<void> {
  await linesUntilEnd(service, 'SIGKILL')
}

async function linesUntilEnd(service: RunningProcess, signal: NodeJS.Signals): Promise<Line[]> {
  service.kill(signal)
  await service.exit
  return service.lines()
}

/** Runs this code in the process before its own. */
function preloading(code: string) {
  const [node = '', ...args] = SERVE
  const module = `data:text/javascript,${encodeURIComponent(code)}`
  return { command: [node, '--import', module, ...args] }
}

/** The database accepts the connection and never answers. */
async function endDuringStart() {
  await using cleanup = new AsyncDisposableStack()
  const folder = await makeTemporaryFolder('login-events-')
  cleanup.defer(() => rm(folder, { recursive: true }))
  const silent = createServer().listen(0, '127.0.0.1')
  cleanup.defer(() => void silent.close())
  await once(silent, 'listening')
  const { port } = Object(silent.address())
  const service = run({
    DATA_DIR: folder,
    DATABASE_URL: `postgres://login@127.0.0.1:${port}/login`,
    BCRYPT_COSTS: '12',
  })
  cleanup.defer(() => kill(service))
  await service.line('service.warning')
  return await linesUntilEnd(service, 'SIGTERM')
}

/** At the start a migration is pending, and a transaction holds a table. */
async function migration() {
  await using cleanup = new AsyncDisposableStack()
  const deployment = await createDeployment('postgres')
  cleanup.defer(deployment.remove)
  const { config, rows } = deployment.database
  assert.ok(config.engine === 'postgres')
  // On PostgreSQL this migration changes nothing, so it can be applied again.
  await rows(`delete from kysely_migration where name = '0009-audit-checks'`)
  const backup = new pg.Client({ connectionString: config.url, application_name: 'pg_dump' })
  await backup.connect()
  await backup.query('begin; select from users')
  const service = run(deployment.env)
  cleanup.defer(() => kill(service))
  await service.line('database.migration_waiting')
  await backup.end()
  await service.line('database.migrating')
  return await linesUntilEnd(service, 'SIGTERM')
}

/** More connections than the process may have file descriptors. */
async function manyConnections() {
  await using cleanup = new AsyncDisposableStack()
  const deployment = await createDeployment('sqlite')
  cleanup.defer(deployment.remove)
  const command = ['sh', '-c', 'ulimit -n 128; exec "$@"', 'sh', ...SERVE]
  const service = await deployment.start({}, { command })
  const { port, hostname } = new URL(service.url)
  const sockets = new Set<Socket>()
  const isSeen = (event: string) => service.lines().some(line => line.event === event)
  await until(async () => {
    const socket = connect(Number(port), hostname)
    sockets.add(socket)
    socket.on('error', () => {}).once('close', () => sockets.delete(socket))
    return isSeen('descriptors.used_up')
  })
  for (const socket of sockets) socket.destroy()
  await until(async () => isSeen('descriptors.free_again'))
  return await linesUntilEnd(service, 'SIGTERM')
}

/** Every command that changes something, beside a service that crashes in the end. */
async function commands() {
  await using cleanup = new AsyncDisposableStack()
  const deployment = await createDeployment('sqlite')
  cleanup.defer(deployment.remove)
  const bomb = `process.on('SIGUSR2', () => { throw new TypeError('boom') })`
  const service = await deployment.start({}, preloading(bomb))
  const cli = await createCli(deployment.database)
  cleanup.defer(cli.remove)
  const lines: Record<string, unknown>[] = []
  const command = async (args: string[], input = `${PASSWORD}\n`, env = {}) => {
    const { code, stdout, stderr } = await cli.run(args, input, env)
    assert.equal(code, 0, stderr)
    for (const line of stderr.split('\n')) if (line.startsWith('{')) lines.push(JSON.parse(line))
    return stdout
  }
  const own = { DATA_DIR: cli.folder }
  await command(['database', 'migrate'], '', own)
  await command(['keys', 'rotate'], '', own)
  await command(['keys', 'rotate'], '', own)
  await command(['admin-tokens', 'add', 'registration', '--role', 'write'])
  await command(['admin-tokens', 'revoke', 'registration'])
  const unrecorded = { ADMIN_TOKENS_FILE: join(cli.folder, 'tokens.json') }
  await command(['admin-tokens', 'add', 'reporting', '--role', 'read'], '', {
    ...unrecorded,
    DATABASE_URL: 'postgres://127.0.0.1:1/login',
  })
  await command(['audit', 'accept', '--target', 'reporting'], '', unrecorded)
  await command(['users', 'add', EMAIL, '--name', 'Kate', '--password-stdin'])

  const body = { email: EMAIL, password: PASSWORD }
  await service.call({ body, headers: { 'Sec-Fetch-Site': 'same-origin' } })
  const { sessionId } = await service.line('login.succeeded')
  await command(['sessions', 'end', String(sessionId)])
  await command(['sessions', 'end', EMAIL])
  await command(['sessions', 'end', '--all', '--yes'])
  const [device] = JSON.parse(await command(['devices', 'list', EMAIL, '--json']))
  await command(['devices', 'revoke', device.id])
  await service.login(EMAIL, 'wrong')
  await command(['throttle', 'clear', '--email', EMAIL])
  await command(['throttle', 'clear', '--client', '127.0.0.1'])

  for (const change of ['deactivate', 'activate', 'lock', 'unlock']) {
    await command(['users', change, EMAIL])
  }
  await command(['users', 'set-password', EMAIL, '--password-stdin'])
  const changed = ['--email', 'kate.miller@example.com', '--name', 'Kate Miller', '--role', 'admin']
  await command(['users', 'set', EMAIL, ...changed])
  await command(['users', 'export-data', 'kate.miller@example.com'])
  await command(['users', 'delete', 'kate.miller@example.com', '--yes'])
  const imported = {
    email: EMAIL,
    name: 'Kate',
    passwordHash: await bcrypt.hash(PASSWORD, TEST_COST),
  }
  await command(['users', 'import', '-'], JSON.stringify(imported))
  await command(['users', 'export', '--output', join(cli.folder, 'users.ndjson')])
  await command(['database', 'purge'])
  return [...lines, ...(await linesUntilEnd(service, 'SIGUSR2'))]
}
