import assert from 'node:assert/strict'
import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { createCli } from '../../../test/cli.ts'
import { createTestDatabase } from '../../../test/engines.ts'
import { digestOf } from '../../identifiers.ts'

async function createTokens(t: { after: (end: () => Promise<void>) => void }) {
  const database = await createTestDatabase('sqlite')
  const cli = await createCli(database)
  t.after(async () => {
    await cli.remove()
    await database.drop()
  })
  const file = join(cli.dataDir, 'admin-tokens.json')
  return { ...cli, file, read: async () => JSON.parse(await readFile(file, 'utf8')).tokens }
}

test('the file holds the digest of a token and not the token, and only its owner can read it', async t => {
  const { run, file, read } = await createTokens(t)
  const { stdout } = await run(['admin-tokens', 'add', 'one', '--role', 'write'])
  assert.match(stdout, /^lsadm_[\w-]{43}\n$/)
  const token = stdout.trim()
  const [{ digest, ...rest }] = await read()
  assert.equal(digest, digestOf(token))
  assert.deepEqual(Object.keys(rest), ['name', 'role', 'createdAt', 'expiresAt'])
  assert.equal(Date.parse(rest.expiresAt) - Date.parse(rest.createdAt), 365 * 24 * 3_600_000)
  assert.ok(!(await readFile(file, 'utf8')).includes(token))
  assert.equal((await stat(file)).mode & 0o777, 0o600)
  await chmod(file, 0o644)
  await run(['admin-tokens', 'add', 'two', '--role', 'read'])
  assert.equal((await stat(file)).mode & 0o777, 0o600)
})

test('of parallel additions none is lost, and one name is given once', async t => {
  const { runProcess, read } = await createTokens(t)
  const names = ['a', 'b', 'c', 'same', 'same', 'same']
  const ended = await Promise.all(
    names.map(name => runProcess(['admin-tokens', 'add', name, '--role', 'read'])),
  )
  assert.equal(ended.filter(({ code }) => code === 0).length, 4)
  const added = (await read()).map(({ name }: { name: string }) => name)
  assert.deepEqual(added.toSorted(), ['a', 'b', 'c', 'same'])
})

test('a malformed file is neither used nor overwritten', async t => {
  const { run, file } = await createTokens(t)
  const digest = digestOf('a')
  const token = { name: 'a', role: 'read', digest, createdAt: '2026-01-01T00:00:00Z' }
  const MALFORMED: [content: unknown, problem: RegExp][] = [
    ['{', /it is not JSON/],
    ['', /it is not JSON/],
    ['null', /no list "tokens"/],
    [{ tokens: {} }, /no list "tokens"/],
    [{ tokens: [null] }, /token 1 needs/],
    [{ tokens: [{ ...token, role: 'admin' }] }, /token 1 needs/],
    [{ tokens: [token, { ...token, name: 'B' }] }, /token 2 needs/],
    [{ tokens: [{ ...token, digest: digest.toUpperCase() }] }, /token 1 needs/],
    [{ tokens: [{ ...token, createdAt: 5 }] }, /token 1 needs/],
    [{ tokens: [{ ...token, expiresAt: '2030-13-01' }] }, /token 1 needs .* a valid expiresAt/],
    [{ tokens: [{ ...token, expiresAt: 5 }] }, /token 1 needs/],
    [{ tokens: [token, { ...token, digest: digestOf('b') }] }, /the same name/],
    [{ tokens: [token, { ...token, name: 'b' }] }, /the same digest/],
    [{ tokens: Array(101).fill(token) }, /more than 100 tokens/],
    [' '.repeat(65_537), /more than 65536 bytes/],
  ]
  for (const [content, problem] of MALFORMED) {
    const text = typeof content === 'string' ? content : JSON.stringify(content)
    await writeFile(file, text)
    for (const args of [['list'], ['add', 'c', '--role', 'read'], ['revoke', 'a']]) {
      const { code, stdout, stderr } = await run(['admin-tokens', ...args])
      assert.deepEqual({ code, stdout }, { code: 1, stdout: '' })
      assert.match(stderr, problem)
    }
    assert.equal(await readFile(file, 'utf8'), text)
  }
})
