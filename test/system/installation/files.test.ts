// The files of deploy/ and SQLite's own program fit the service. installing.test.ts uses those that docs/installing.md names.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { BlockList } from 'node:net'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { parseEnv } from 'node:util'
import packageJson from '../../../package.json' with { type: 'json' }
import { loadConfig } from '../../../src/config/config.ts'
import { developmentFiles } from '../../../src/http/connection/tls.ts'
import { own, ownFolder } from '../../support/own.ts'
import { freePort } from '../../support/postgres-server.ts'
import {
  createDeployment,
  PROJECT,
  SERVE,
  type ServiceProcess,
  stop,
} from '../../support/process.ts'
import { type Answer, type Call, createClient, PASSWORD } from '../../support/service.ts'
import { assertHarmless } from '../half-sent.ts'
import { startProxy } from '../proxy.ts'
import { assertSamePublicPaths } from './public-paths.ts'

const EMAIL = 'kate@example.com'
/** Requests in progress, connections and the database have this long after DRAIN_DELAY_MS. */
const STOP_MS = 7_000
const CERTIFICATE_FOLDER = process.env.TEST_TEMPLATES ?? ''
const DATABASE_URL = 'postgres://login@db.internal/login?sslmode=verify-full'

const instructions = read('Dockerfile')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter(Boolean)
  .map(line => ({ name: line.split(' ')[0] ?? '', rest: line.slice(line.indexOf(' ') + 1) }))
const lastOf = (name: string) => instructions.findLast(each => each.name === name)?.rest ?? ''
const imageEnv = parseEnv(lastOf('ENV').replaceAll(' ', '\n'))

const folder = await ownFolder()
const deployment = await own(createDeployment('sqlite', { TRUST_PROXY: '127.0.0.1' }))
await deployment.addUser(EMAIL)

test('the unit and the image start the service as "npm start" does', () => {
  const start = packageJson.scripts.start.replace('exec ', '')
  assert.ok(
    read('login-service.service').includes(
      `ExecStart=/usr/bin/${start.replace('launch.cjs', '/opt/login-service/launch.cjs')}\n`,
    ),
  )
  const command = ['ENTRYPOINT', 'CMD'].flatMap(name => JSON.parse(lastOf(name)))
  assert.equal(command.join(' '), start)
})

test('the service runs from what the image contains, and the user of the image is not root', async () => {
  assert.match(lastOf('USER'), /^[1-9]\d*:[1-9]\d*$/)
  const copied = instructions
    .filter(({ name }) => name === 'COPY')
    .map(({ rest }) => rest.split(' ').filter(part => !part.startsWith('--')))
  for (const source of copied.flatMap(parts => parts.slice(0, -1))) {
    if (source.startsWith('/')) continue
    assert.ok(existsSync(join(PROJECT, source)), source)
  }
  const image = join(folder, 'image')
  mkdirSync(image)
  const lastStage = instructions.findLastIndex(({ name }) => name === 'FROM')
  for (const { name, rest } of instructions.slice(lastStage)) {
    if (name !== 'COPY' || rest.startsWith('--from')) continue
    const [to = '', ...sources] = rest.split(' ').reverse()
    for (const source of sources) {
      const target = to.endsWith('/') ? join(to, source) : to
      cpSync(join(PROJECT, source), join(image, target), { recursive: true })
    }
  }
  symlinkSync(join(PROJECT, 'node_modules'), join(image, 'node_modules'))
  const command = SERVE.map(part => part.replace(PROJECT, `${image}/`))
  assert.ok(command.includes(join(image, 'launch.cjs')))
  const service = await deployment.start({}, { command })
  assert.equal((await loginThrough(service)).status, 403)
  await stop(service)
})

test('the health check of the image succeeds only while the service is ready', async () => {
  const opsPort = String(await freePort())
  const [, ...check]: string[] = JSON.parse(lastOf('HEALTHCHECK').replace(/^.*? CMD /, ''))
  const args = check.map(part => part.replace('9443', opsPort))
  assert.ok(args.join(' ').includes(opsPort))
  const isHealthy = () => spawnSync(process.execPath, args).status === 0
  assert.ok(!isHealthy())
  const service = await deployment.start({ OPS_PORT: opsPort })
  assert.ok(isHealthy())
  await stop(service)
})

test('the settings for systemd are accepted in production', () => {
  const { warnings, database } = loadConfig(parseEnv(read('login-service.env')))
  assert.deepEqual(warnings, [])
  assert.equal(database.engine, 'postgres')
})

test('compose.yaml: variables, read-only root and time to stop', () => {
  const [{ services, networks }] = parseYaml('compose.yaml')
  const { login, proxy } = services
  const config = loadConfig({ ...imageEnv, ...login.environment })
  const [database, proxied, ...others] = config.warnings
  assert.equal(database, 'The connection to the database is not encrypted (sslmode=disable).')
  assert.match(proxied ?? '', /^With HOST=0\.0\.0\.0 the proxy sends .* unencrypted/)
  assert.deepEqual(others, [])
  const { ipv4_address: proxyAddress } = proxy.networks.default
  assert.deepEqual(config.trustProxy, [proxyAddress])
  const [{ subnet, gateway, ip_range: range }] = networks.default.ipam.config
  assert.ok(contains(subnet, proxyAddress) && !contains(range, proxyAddress))
  assert.notEqual(gateway, proxyAddress)
  assert.equal(login.ulimits.core, 0)
  assert.match(proxy.command, new RegExp(`--to login:${config.port}$`))
  assert.ok(existsSync(join(PROJECT, 'deploy', login.build.context, login.build.dockerfile)))
  assert.ok(login.volumes.includes(`login:${config.dataDir}`))
  assert.ok(login.read_only)
  assert.deepEqual(login.cap_drop, ['ALL'])
  assert.ok(Number.parseInt(login.stop_grace_period, 10) * 1_000 > 2_000 + STOP_MS)
})

test('kubernetes.yaml: variables, ports, probes and security', async () => {
  const [{ spec }, budget, policy, service] = parseYaml('kubernetes.yaml')
  const { spec: pod, metadata } = spec.template
  const [container] = pod.containers
  const given = container.env.map(({ name, value = '' }: { name: string; value?: string }) =>
    name === 'DATABASE_URL' ? [name, DATABASE_URL] : [name, value],
  )
  const config = loadConfig({ ...imageEnv, ...Object.fromEntries(given) })
  assert.deepEqual(config.warnings, [])
  assert.ok(pod.terminationGracePeriodSeconds * 1_000 > (config.drainDelayMs ?? 0) + STOP_MS)

  const mounts = container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath)
  const { tls, signingKeysFile, dataDir } = config
  assert.ok(tls)
  for (const file of [tls.certFile, tls.keyFile, signingKeysFile]) {
    assert.ok(mounts.includes(dirname(file)), file)
  }
  assert.ok(mounts.includes(dataDir))

  type Ingress = { from?: unknown; ports: [{ port: string }] }
  type Port = { name: string; containerPort: number }
  const ports = Object.fromEntries(
    container.ports.map(({ name, containerPort }: Port) => [name, containerPort]),
  )
  assert.equal(ports[service.spec.ports[0].targetPort], config.port)
  const { startupProbe, livenessProbe, readinessProbe } = container
  const running = await deployment.start()
  for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe]) {
    assert.equal(ports[httpGet.port], config.opsPort)
    assert.equal(await running.health(httpGet.path), 200)
  }
  running.kill('SIGTERM')

  // Without `from`, the rule admits every client.
  const admitted = policy.spec.ingress.map(({ from, ports: [{ port }] }: Ingress) => [port, !from])
  assert.deepEqual(Object.fromEntries(admitted), { https: true, ops: false })
  for (const selector of [spec.selector, budget.spec.selector, policy.spec.podSelector]) {
    assert.deepEqual(selector.matchLabels, metadata.labels)
  }
  assert.deepEqual(service.spec.selector, metadata.labels)
  assert.equal(`${pod.securityContext.runAsUser}:${pod.securityContext.runAsGroup}`, lastOf('USER'))
  assert.ok(container.securityContext.readOnlyRootFilesystem)
  assert.deepEqual(container.securityContext.capabilities.drop, ['ALL'])
})

test('Caddyfile: all public paths, and a login in which Caddy does not believe the client’s own address', async () => {
  execFileSync('caddy', ['validate', '--config', join(PROJECT, 'deploy/Caddyfile')], {
    stdio: 'pipe',
  })
  const service = await deployment.start()
  const throughCaddy = await startCaddy(service)
  assert.equal((await loginThrough(throughCaddy)).status, 200)
  assert.equal((await service.line('login.succeeded')).ip, '127.0.0.1')
  const headers = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': '127.0.0.1' }
  const direct = await createClient(service.url, CERTIFICATE_FOLDER)
  await assertSamePublicPaths(throughCaddy.call, call => direct.call({ ...call, headers }))
  for (const client of [throughCaddy, direct]) client.close()
  await stop(service)
})

test('Caddyfile: half-sent bodies of one client keep no other from logging in', async () => {
  const service = await deployment.start()
  const { url, call, close } = await startCaddy(service)
  // More than the service has connections.
  await assertHarmless({ url, call }, EMAIL, 4_300)
  assert.equal((await service.line('connection.limited')).ip, '127.0.0.2')
  close()
})

test("Debian's sqlite3, which is older than that of Node, finds no fault in a file of the service", async () => {
  const { config, rows } = deployment.database
  assert.ok(config.engine === 'sqlite')
  // An event without fields, as that of an ended session.
  await rows(`insert into audit_events (at, actor_kind, actor, host, action, target)
    values ('2030-01-31T12:00:00.000Z', 'user', 'root', 'login1', 'session.ended', 'ann@example.com')`)
  const checks = [config.file, 'pragma integrity_check; pragma foreign_key_check']
  assert.equal(execFileSync('sqlite3', checks, { encoding: 'utf8' }), 'ok\n')
})

/** With the Caddyfile. */
async function startCaddy(service: ServiceProcess) {
  const port = await freePort()
  const { certFile, keyFile } = developmentFiles(CERTIFICATE_FOLDER)
  const text = `{
    admin off
    auto_https disable_redirects
  }
  ${read('Caddyfile')
    .replace('login.example.com {', `https://127.0.0.1:${port} {\ntls ${certFile} ${keyFile}`)
    .replace('127.0.0.1:8443', new URL(service.url).host)}`
  const file = join(folder, 'Caddyfile')
  writeFileSync(file, text)
  const url = `https://127.0.0.1:${port}`
  const client = await createClient(url, CERTIFICATE_FOLDER)
  const command = ['caddy', 'run', '--adapter', 'caddyfile', '--config', file]
  await startProxy(command, client, folder)
  return { url, ...client }
}

/** With an address of the client's own choice. */
function loginThrough({ call }: { call: (request: Call) => Promise<Answer> }): Promise<Answer> {
  const headers = { 'X-Forwarded-For': '203.0.113.9' }
  return call({ headers, body: { email: EMAIL, password: PASSWORD } })
}

function contains(range: string, address: string): boolean {
  const [network = '', bits] = range.split('/')
  const list = new BlockList()
  list.addSubnet(network, Number(bits))
  return list.check(address)
}

function read(file: string): string {
  return readFileSync(join(PROJECT, 'deploy', file), 'utf8')
}

function parseYaml(file: string) {
  const program =
    'import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)'
  const input = read(file)
  return JSON.parse(execFileSync('python3', ['-c', program], { input, encoding: 'utf8' }))
}
