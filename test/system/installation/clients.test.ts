// Linters find nothing in the OpenAPI documents, and the clients that generators make of them compile, with the codes of
// each operation as types. The React hook examples/use-login.ts compiles with React's types, and runs in React.
import assert from 'node:assert/strict'
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { changeAt } from '../../storage/fixtures.ts'
import { startAdminService } from '../../support/admin-service.ts'
import { own } from '../../support/own.ts'
import { PROJECT } from '../../support/process.ts'
import { makeRecipeFolder } from '../../support/recipes.ts'
import { createClient, PASSWORD, TEST_COST } from '../../support/service.ts'

const TOOLS = join(PROJECT, 'test/system/installation/tools')
const COMPILE = [
  ...['tsc', '--strict', '--noEmit', '--skipLibCheck', '--target', 'es2022', '--lib', 'es2023,dom'],
  ...['--module', 'esnext', '--moduleResolution', 'bundler'],
]

const EMAIL = 'kate@example.com'

const service = await own(startAdminService('sqlite'))
const certFile = join(service.dataDir, 'development-cert.pem')
const folder = await own(makeRecipeFolder({}, certFile, join(TOOLS, 'node_modules')))
const client = await createClient(service.adminUrl, service.dataDir)
const headers = { Authorization: `Bearer ${service.read}` }
const get = { method: 'GET', path: '/openapi.json', headers }
await writeFile(join(folder.path, 'public.json'), (await service.call(get)).text)
await writeFile(join(folder.path, 'admin.json'), (await client.call(get)).text)
client.close()

/** Runs a command of the tools in the folder; throws if it fails. */
function run([tool = '', ...args]: string[]): Promise<string> {
  // Neither asks for a newer version, nor tells its makers about this use.
  const quiet = { REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', REDOCLY_TELEMETRY: 'off' }
  // Not on the machine's own Node, which may be too old for them.
  return folder.run([process.execPath, join(TOOLS, 'node_modules/.bin', tool), ...args], quiet)
}

for (const name of ['public', 'admin']) {
  const file = `${name}.json`
  describe(`the ${name} document`, () => {
    test('has no errors or warnings by the rules that Redocly recommends', async () => {
      const config = join(TOOLS, 'redocly.yaml')
      const printed = await run(['redocly', 'lint', file, '--config', config, '--format', 'json'])
      const { totals } = JSON.parse(printed)
      assert.deepEqual(totals, { errors: 0, warnings: 0, ignored: 0 }, printed)
    })

    test('has no errors, warnings or hints by the rules that Spectral recommends', async () => {
      const ruleset = join(TOOLS, 'spectral.yaml')
      await run(['spectral', 'lint', file, '--ruleset', ruleset, '--fail-severity', 'hint'])
    })

    test('becomes types with openapi-typescript and a client with Hey API that compile', async () => {
      await run(['openapi-typescript', file, '--output', 'openapi-typescript.d.ts'])
      await run(['openapi-ts', '--input', file, '--output', 'hey-api', '--no-log-file'])
      await run([...COMPILE, 'openapi-typescript.d.ts', 'hey-api/index.ts'])
    })

    if (name === 'public') {
      test('gives both the codes of each operation as types', async () => {
        await copyFile(join(TOOLS, 'typed-codes.ts'), join(folder.path, 'typed-codes.ts'))
        await run([...COMPILE, 'typed-codes.ts'])
      })
    }
  })
}

test('the React hook compiles, and shows the user and the error of each call', async () => {
  const id = await service.addUser(EMAIL)
  const until = new Date(service.now().getTime() + 3_600_000)
  const hash = await bcrypt.hash(PASSWORD, TEST_COST)
  await service.store.users.setPassword(id, hash, changeAt(service.now()), until)
  for (const name of ['use-login.ts', 'login-client.d.ts']) {
    await copyFile(join(PROJECT, 'examples', name), join(folder.path, name))
  }
  await run([
    ...['tsc', '--strict', '--noEmit', '--target', 'es2022', '--lib', 'es2022,dom'],
    ...['--module', 'nodenext', 'use-login.ts'],
  ])
  await copyFile(join(TOOLS, 'call-hook.js'), join(folder.path, 'call-hook.js'))
  const env = { LOGIN_URL: service.url, EMAIL, PASSWORD }
  const printed = await folder.run([process.execPath, 'call-hook.js'], env)
  const lines = printed.trim().split('\n')
  assert.deepEqual(
    lines.map(line => JSON.parse(line)),
    [
      ['unknown', null],
      [null, null],
      [null, 'INVALID_CREDENTIALS'],
      [null, 'PASSWORD_CHANGE_REQUIRED'],
      [null, 'VALIDATION_ERROR'],
      [EMAIL, null],
      [EMAIL, null],
      [null, 'INVALID_TOKEN'],
      [EMAIL, null],
      [EMAIL, 'VALIDATION_ERROR'],
      [null, null],
    ],
  )
})
