// Keys, admin tokens and the configuration in the audit, and what the doctor says if no event explains one.
import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { replaceTokens } from '../src/admin/tokens/token-file.ts'
import type { AuditEvent } from '../src/domain/audit.ts'
import type { Finding } from '../src/finding.ts'
import { createAdminToken, digestOf } from '../src/identifiers.ts'
import { ensureKeyFile } from '../src/keys/key-file.ts'
import { createGeneration } from '../src/keys/key-set.ts'
import type { EngineName } from '../src/storage/sql/engine.ts'
import { createCli, PRODUCTION } from './cli.ts'
import { ENGINES } from './engines.ts'
import { startTestService } from './service.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

const EXPLAINED = [
  { check: 'audit', state: 'ok', detail: 'explains every signing key and admin token' },
]
const DAY_MS = 86_400_000
const IN_PRODUCTION = { ...PRODUCTION, TRUST_PROXY: '127.0.0.1' }
const UNREACHABLE = { DATABASE_URL: 'postgres://ann@127.0.0.1:1/login' }

/** A service, and commands that use its database, keys and tokens. `prepare` makes files before the first start. */
async function setUp(
  t: TestContext,
  engine: EngineName,
  prepare: (keysFile: string, tokensFile: string) => Promise<void> = async () => {},
) {
  const folder = await makeTemporaryFolder('login-recorded-')
  const keysFile = join(folder, 'keys.json')
  const tokensFile = join(folder, 'tokens.json')
  const files = { SIGNING_KEYS_FILE: keysFile, ADMIN_TOKENS_FILE: tokensFile }
  await prepare(keysFile, tokensFile)
  const service = await startTestService(engine, files)
  const cli = await createCli(service.database)
  t.after(async () => {
    await service.stop()
    await cli.remove()
    await rm(folder, { recursive: true })
  })
  const run = (args: string[], env = {}) => cli.run(args, '', { ...files, ...env })
  const events = async (target: string): Promise<AuditEvent[]> =>
    JSON.parse((await run(['audit', 'list', '--target', target, '--json'])).stdout)
  return {
    service,
    run,
    runProcess: (args: string[]) => cli.runProcess(args, '', files),
    /** A further start with the same files. */
    async restart(env = {}) {
      const other = await startTestService(engine, { ...files, ...env }, service)
      await other.stop()
      return other.logText()
    },
    keysFile,
    tokensFile,
    events,
    actions: async (target: string) => (await events(target)).map(({ action }) => action),
    keyIds: async (): Promise<string[]> => (await read(keysFile)).keys.map(({ kid }) => kid),
    /** What the doctor says of the audit. */
    async examine(env = {}) {
      const { stdout } = await run(['doctor', '--json'], env)
      const findings: Finding[] = JSON.parse(stdout)
      return findings.filter(({ check }) => check === 'audit')
    },
  }
}

type Files = {
  keys: ({ kid: string } & Record<string, unknown>)[]
  tokens: Record<string, string>[]
}

const read = async (file: string): Promise<Files> => JSON.parse(await readFile(file, 'utf8'))
const write = (file: string, content: Partial<Files>) => writeFile(file, JSON.stringify(content))

for (const engine of ENGINES) {
  test(`the keys that a start makes, rotations and tokens are in the audit, on ${engine}`, async t => {
    const { run, actions, events, examine, keyIds } = await setUp(t, engine)
    const made = await keyIds()
    for (const id of made) assert.deepEqual(await actions(id), ['key.added'])
    assert.equal((await run(['keys', 'rotate'])).code, 0)
    const added = (await keyIds()).filter(id => !made.includes(id))
    assert.equal(added.length, 2)
    for (const id of added) assert.deepEqual(await actions(id), ['key.added'])

    const add = ['admin-tokens', 'add', 'one', '--role', 'read', '--valid', '2099-01-01']
    const { stdout: token } = await run(add)
    assert.equal((await run(['admin-tokens', 'revoke', 'one'])).code, 0)
    assert.equal((await run(add)).code, 0)
    const [second, revoked, first] = await events('one')
    assert.deepEqual(await actions('one'), ['token.added', 'token.revoked', 'token.added'])
    const { fingerprint, ...facts } = { ...first?.after }
    assert.deepEqual(facts, { role: 'read', expiresAt: '2099-01-01T00:00:00.000Z' })
    assert.deepEqual(revoked?.before, first?.after)
    assert.notEqual(second?.after?.fingerprint, fingerprint)
    assert.deepEqual(await examine(), EXPLAINED)
    assert.ok(!(await run(['audit', 'list', '--json'])).stdout.includes(token.trim()))
  })

  test(`what was there before the upgrade is recorded as found at the first start only, on ${engine}`, async t => {
    const createdAt = new Date(Date.now() - 30 * DAY_MS)
    const old = { name: 'old', role: 'read', createdAt, expiresAt: null } as const
    const { run, restart, actions, examine, keysFile, keyIds } = await setUp(
      t,
      engine,
      async (keysFile, tokensFile) => {
        await ensureKeyFile(keysFile, createdAt)
        await replaceTokens(tokensFile, [{ ...old, digest: digestOf(createAdminToken()) }])
      },
    )
    const found = await keyIds()
    for (const id of found) assert.deepEqual(await actions(id), ['key.found'])
    assert.deepEqual(await actions('old'), ['token.found'])
    assert.deepEqual(await examine(), EXPLAINED)

    const generation = await createGeneration(new Date(Date.now() - 20 * DAY_MS), 0)
    const [planted] = generation
    const { keys } = await read(keysFile)
    await writeFile(keysFile, JSON.stringify({ keys: [...keys, ...generation] }))
    await restart()
    const findings = await examine()
    const states = [...findings, ...(await examine(IN_PRODUCTION))].map(({ state }) => state)
    assert.deepEqual(states, ['warning', 'warning', 'problem', 'problem'])
    assert.match(
      findings[0]?.detail ?? '',
      new RegExp(`^no event explains the signing key ${planted?.kid}, .* run "keys rotate", then`),
    )
    for (const { kid = '' } of generation) {
      const { code, stderr } = await run(['audit', 'accept', '--target', kid])
      assert.equal(code, 0, stderr)
      assert.deepEqual(await actions(kid), ['key.found'])
      assert.equal((await run(['audit', 'accept', '--target', kid])).code, 1)
    }
    assert.deepEqual(await examine(), EXPLAINED)
    // The planted keys are old enough to have superseded those before.
    assert.equal((await run(['keys', 'rotate'])).code, 0)
    for (const id of found) assert.deepEqual(await actions(id), ['key.removed', 'key.found'])
  })

  test(`a start records a changed configuration, without secrets, on ${engine}`, async t => {
    const { service, restart, events } = await setUp(t, engine)
    await restart()
    await restart({ THROTTLE_EMAIL_FAILURES: '1000', BRAND_NAME: 'Example' })
    await restart({ THROTTLE_EMAIL_FAILURES: '1000', BRAND_NAME: 'Another' })
    const [changed, first, ...others] = await events('configuration')
    assert.deepEqual(others, [])
    assert.equal(first?.action, 'service.configured')
    assert.equal(first?.after?.JWT_ISSUER, service.env.JWT_ISSUER)
    assert.equal(first?.after?.PASSWORD_ENGINE, undefined)
    assert.deepEqual(changed?.after, { ...first?.after, THROTTLE_EMAIL_FAILURES: '1000' })
  })

  test(`on ${engine}, a database that accepts no event stops exports, but no start and no rotation`, async t => {
    const { service, run, restart, keyIds } = await setUp(t, engine)
    await service.addUser('ann@example.org')
    const refuse =
      engine === 'sqlite'
        ? `create trigger refuse before insert on audit_events begin select raise(abort, 'no writes'); end`
        : `alter table audit_events add constraint refuse check (false) not valid`
    await service.database.rows(refuse)
    assert.match(
      await restart({ THROTTLE_EMAIL_FAILURES: '1000' }),
      /"service\.warning".*the audit has no event of this start: /,
    )
    const rotated = await run(['keys', 'rotate'])
    assert.equal(rotated.code, 0)
    assert.match(rotated.stderr, /^Warning: .* cannot be used: .* The audit does not have this/m)
    assert.equal((await keyIds()).length, 4)
    const { code, stdout } = await run(['users', 'export'])
    assert.deepEqual({ code, stdout }, { code: 1, stdout: '' })
  })
}

test('tokens that were changed by hand are not explained', async t => {
  const { run, examine, tokensFile } = await setUp(t, 'sqlite')
  assert.equal((await run(['admin-tokens', 'add', 'one', '--role', 'read'])).code, 0)
  assert.deepEqual(await examine(), EXPLAINED)
  const { tokens } = await read(tokensFile)
  const [token = {}] = tokens
  for (const edited of [
    { ...token, role: 'write' },
    { ...token, expiresAt: '2999-01-01T00:00:00.000Z' },
    { ...token, digest: digestOf(createAdminToken()) },
    { ...token, name: 'two' },
  ]) {
    await write(tokensFile, { tokens: [edited] })
    const [{ detail } = { detail: '' }, ...others] = await examine()
    assert.match(detail, new RegExp(`^no event explains the admin token ${Object(edited).name}, `))
    assert.deepEqual(others, [])
  }
  // Put back after its revocation, for example from a backup.
  await write(tokensFile, { tokens })
  assert.deepEqual(await examine(), EXPLAINED)
  assert.equal((await run(['admin-tokens', 'revoke', 'one'])).code, 0)
  assert.deepEqual(await examine(), EXPLAINED)
  await write(tokensFile, { tokens })
  const [finding] = await examine(IN_PRODUCTION)
  assert.match(`${finding?.state}: ${finding?.detail}`, /^problem: .*"admin-tokens revoke one"$/)
})

test('a secret that was exchanged under the id of a known key is not explained', async t => {
  const { examine, keysFile } = await setUp(t, 'sqlite')
  const { keys } = await read(keysFile)
  const [, secret] = await createGeneration(new Date(), 0)
  await write(keysFile, {
    keys: keys.map(key => (key.kty === 'oct' ? { ...key, k: secret?.k } : key)),
  })
  const [{ detail } = { detail: '' }, ...others] = await examine()
  assert.match(detail, /^no event explains the signing key .*, or its present form: /)
  assert.deepEqual(others, [])
})

test('while the database is down, keys are rotated and tokens revoked, with a warning', async t => {
  const { run, examine, keyIds, tokensFile } = await setUp(t, 'sqlite')
  const before = await keyIds()
  const rotated = await run(['keys', 'rotate'], UNREACHABLE)
  assert.equal(rotated.code, 0)
  const added = (await keyIds()).filter(id => !before.includes(id))
  assert.equal(added.length, 2)
  const lines = rotated.stderr.split('\n')
  const advice = added.map(id => `"audit accept --target ${id}"`).join(' and ')
  const missing = `The audit does not have this change. Run ${advice} once the database can be used.`
  assert.ok(lines.includes(`Warning: ${missing}`), rotated.stderr)
  const line = lines.find(text => text.startsWith('{')) ?? ''
  assert.deepEqual(JSON.parse(line).added, added)
  assert.equal((await examine()).length, 2)
  for (const id of added) await run(['audit', 'accept', '--target', id])
  assert.deepEqual(await examine(), EXPLAINED)

  await run(['admin-tokens', 'add', 'one', '--role', 'read'], UNREACHABLE)
  const revoked = await run(['admin-tokens', 'revoke', 'one'], UNREACHABLE)
  assert.equal(revoked.code, 0)
  assert.match(revoked.stderr, /^Warning: The audit does not have this change\.$/m)
  assert.deepEqual((await read(tokensFile)).tokens, [])
})

test('of rotations at the same time, each is recorded', async t => {
  const { runProcess, examine, keyIds, actions } = await setUp(t, 'sqlite')
  const ended = await Promise.all(Array.from({ length: 4 }, () => runProcess(['keys', 'rotate'])))
  assert.deepEqual(
    ended.map(({ code, stderr }) => [code, /Warning/.test(stderr)]),
    Array(4).fill([0, false]),
  )
  const ids = await keyIds()
  assert.equal(ids.length, 10)
  for (const id of ids) assert.deepEqual(await actions(id), ['key.added'])
  assert.deepEqual(await examine(), EXPLAINED)
})
