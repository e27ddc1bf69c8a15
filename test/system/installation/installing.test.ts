// docs/installing.md is followed on a bare Debian 12: each of its commands, in its order, as it is printed.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import packageJson from '../../../package.json' with { type: 'json' }
import { own } from '../../support/own.ts'
import { type Line, PROJECT, until } from '../../support/process.ts'
import type { Body } from '../../support/service.ts'
import { startMachine } from './machine.ts'

const DOCUMENT = readFileSync(join(PROJECT, 'docs/installing.md'), 'utf8')
const STATE = '/var/lib/login-service'
const BACKUPS = '/var/backups/login-service'
/** In tenths, from 0 (isolated) to 100; a service without any restriction has 96. */
const MOST_EXPOSURE = 11
const EMAIL = 'kate@example.com'
const PASSWORD = 'correct horse battery'
const REQUEST = 'curl --silent --show-error --insecure https://127.0.0.1/api/v1/auth'
const READY = `curl --silent --show-error --fail --retry 120 --retry-delay 1 --retry-all-errors \
  http://127.0.0.1:9443/readyz`

/** The commands under each heading, in the order of the document. */
const sections = new Map(
  DOCUMENT.split(/^## /m)
    .slice(1)
    .map(text => [
      text.split('\n')[0] ?? '',
      [...text.matchAll(/```sh\n(.*?)```/gs)].map(match => match[1] ?? ''),
    ]),
)
const tested = new Set<string>()

const machine = await own(startMachine())
copyProject(packageJson.version)

test('Installing: from a bare machine to a login through nginx', async () => {
  const outputs = await follow('Installing')
  const answer: Body = JSON.parse(outputs.at(-1) ?? '')
  assert.equal(answer.data.user.email, EMAIL)
  assert.equal(await machine.run('login-admin --version'), `${packageJson.version}\n`)
  assert.equal(await machine.run('systemctl show -P LimitCORE login-service'), '0\n')
  await machine.run(`systemd-analyze verify login-service.service
    systemd-analyze security --threshold=${MOST_EXPOSURE} login-service`)
})

test('the unit reloads, restarts after a crash, and stays down if the settings are wrong', async () => {
  await machine.run('login-admin keys rotate && systemctl reload login-service')
  await logged('keys.reloaded')
  await machine.run(`systemctl kill --signal=SIGKILL login-service
    until [ "$(systemctl show -P NRestarts login-service)" = 1 ]; do sleep 0.2; done`)
  await login()
  await machine.run(`echo BCRYPT_COST=1 >> /etc/login-service/.env
    systemctl restart login-service
    while [ "$(systemctl show -P SubState login-service)" != failed ]; do sleep 0.2; done`)
  assert.equal(await machine.run('systemctl show -P ExecMainStatus login-service'), '2\n')
  // npm bcrypt needs other system calls than WebAssembly.
  await machine.run(`sed -i s/^BCRYPT_COST=.*/PASSWORD_ENGINE=native/ /etc/login-service/.env
    systemctl start login-service`)
  await login()
})

test("login-admin reads the file of the caller's folder, and the audit names the user of sudo", async () => {
  await machine.run(`install -d -o login /srv/import && cd /srv/import
    echo '{"email":"ida@example.com","name":"Ida","passwordHash":"$2b$10$${'.'.repeat(53)}"}' > u.ndjson
    SUDO_USER=kim login-admin users import u.ndjson`)
  const [event] = JSON.parse(await machine.run('login-admin audit list --json'))
  assert.deepEqual([event.target, event.by.name], ['ida@example.com', 'kim'])
})

test('nginx does not believe the address that a client claims', async () => {
  const json = `--header 'Content-Type: application/json' --data '{"email":"${EMAIL}","password":"x"}'`
  await machine.run(`${READY}
    ${REQUEST}/login --header 'X-Forwarded-For: 203.0.113.9' ${json}`)
  assert.equal((await logged('login.failed')).ip, '127.0.0.1')
})

test('Backup and Restore: users, sessions and keys of PostgreSQL', () =>
  restores(
    () => follow('Backup'),
    () => follow('Restore'),
    'login.dump',
  ))

test('a backup that fails keeps the previous one, and a damaged one changes nothing', async () => {
  const digest = () => machine.run(`sha256sum ${BACKUPS}/login.dump`)
  const allow = (isAllowed: boolean) =>
    machine.run(
      `runuser -u postgres -- psql -c 'alter database login allow_connections ${isAllowed}'`,
    )
  const previous = await digest()
  await allow(false)
  await assert.rejects(follow('Backup'), /pg_dump: error/)
  await allow(true)
  assert.equal(await digest(), previous)
  assert.doesNotMatch(await machine.run(`ls ${BACKUPS}`), /new/)

  await machine.run(`cd ${BACKUPS} && cp login.dump whole.dump && truncate --size=20000 login.dump`)
  const [readDump = ''] = commandsOf('Restore')
  await assert.rejects(machine.run(readDump), /pg_restore: error/)
  const session = await login()
  await machine.run(`mv ${BACKUPS}/whole.dump ${BACKUPS}/login.dump`)
  await follow('Backup')
  await follow('Restore')
  await assertLive(session)
})

test('Upgrade and Rollback: to the next version and back', async () => {
  const session = await login()
  copyProject('0.5.0')
  await follow('Upgrade')
  await assertLive(session)
  assert.equal(await machine.run('login-admin --version'), '0.5.0\n')
  await follow('Rollback')
  await assertLive(session)
  assert.equal(await machine.run('login-admin --version'), `${packageJson.version}\n`)
})

test('A password for PostgreSQL: by PGPASSWORD, then by .pgpass', async () => {
  const [byVariable = '', byFile = ''] = commandsOf('A password for PostgreSQL')
  await machine.run(byVariable)
  await login()
  await machine.run(byFile)
  await login()
})

test('SQLite instead of PostgreSQL: users, sessions and keys are restored', async () => {
  const [change = '', backup = '', restore = ''] = commandsOf('SQLite instead of PostgreSQL')
  await machine.run(change)
  await machine.run(`${READY}
    echo '${PASSWORD}' | login-admin users add ${EMAIL} --name Kate --password-stdin`)
  const run = (script: string) => () => machine.run(script)
  await restores(run(backup), run(restore), 'login.db')
  assert.equal(await modeOf(`${STATE}/login.db`), '600 login')
})

test('every command of the document was run', () => {
  const withCommands = [...sections].filter(([, commands]) => commands.length > 0)
  assert.deepEqual(withCommands.map(([heading]) => heading).toSorted(), [...tested].toSorted())
})

/** What is lost after the backup comes back with it; what has come since is gone. */
async function restores(
  backup: () => Promise<unknown>,
  restore: () => Promise<unknown>,
  database: string,
): Promise<void> {
  const before = await login()
  await backup()
  for (const file of [database, 'signing-keys.json', '.env']) {
    assert.equal(await modeOf(`${BACKUPS}/${file}`), '600 root')
  }
  const since = await login()
  await machine.run(`login-admin users delete ${EMAIL} --yes
    rm ${STATE}/signing-keys.json
    login-admin keys rotate`)
  await restore()
  assert.equal(await modeOf(`${STATE}/signing-keys.json`), '600 login')
  await assertLive(before)
  await login()
  const lost = await call('/refresh', { refreshToken: since.refreshToken })
  assert.equal(lost.error.code, 'INVALID_TOKEN')
}

async function assertLive({ accessToken, refreshToken }: Body['data']): Promise<void> {
  await machine.run(READY)
  const header = `--header 'Authorization: Bearer ${accessToken}'`
  const session: Body = JSON.parse(await machine.run(`${REQUEST}/session ${header}`))
  assert.equal(session.data.user.email, EMAIL)
  const refreshed = await call('/refresh', { refreshToken })
  assert.ok(refreshed.success)
}

async function login(): Promise<Body['data']> {
  await machine.run(READY)
  const { success, data } = await call('/login', { email: EMAIL, password: PASSWORD })
  assert.ok(success)
  return data
}

async function call(path: string, body: object): Promise<Body> {
  const json = `--header 'Content-Type: application/json' --data '${JSON.stringify(body)}'`
  return JSON.parse(await machine.run(`${REQUEST}${path} ${json}`))
}

async function follow(heading: string): Promise<string[]> {
  const outputs: string[] = []
  for (const commands of commandsOf(heading)) outputs.push(await machine.run(commands))
  return outputs
}

function commandsOf(heading: string): string[] {
  tested.add(heading)
  const commands = sections.get(heading)
  assert.ok(commands && commands.length > 0, heading)
  return commands
}

function modeOf(file: string): Promise<string> {
  return machine.run(`stat --format='%a %U' ${file}`).then(output => output.trim())
}

/** Waits for a line of this event in the journal, and returns the last one. */
async function logged(event: string): Promise<Line> {
  let found: Line | undefined
  await until(async () => {
    const journal = await machine.run('journalctl --unit=login-service --output=cat')
    const lines = journal.split('\n').filter(line => line.startsWith('{'))
    found = lines.map((line): Line => JSON.parse(line)).findLast(line => line.event === event)
    return found !== undefined
  })
  assert.ok(found)
  return found
}

/** The files of this project, changed ones included, as if they were this version. */
function copyProject(version: string): void {
  const folder = join(machine.root, `opt/login-service-${version}`)
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const files = execFileSync('git', list, { cwd: PROJECT, encoding: 'utf8' }).split('\0')
  mkdirSync(folder)
  for (const file of files.filter(Boolean)) cpSync(join(PROJECT, file), join(folder, file))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...packageJson, version }))
}
