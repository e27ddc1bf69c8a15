// Linters find nothing in the OpenAPI documents, and the clients that generators make of them compile, with the codes of
// each operation as types.
import assert from 'node:assert/strict'
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { startAdminService } from '../../support/admin-service.ts'
import { own } from '../../support/own.ts'
import { PROJECT } from '../../support/process.ts'
import { makeRecipeFolder } from '../../support/recipes.ts'
import { createClient } from '../../support/service.ts'

const TOOLS = join(PROJECT, 'test/system/installation/tools')
const COMPILE = [
  ...['tsc', '--strict', '--noEmit', '--skipLibCheck', '--target', 'es2022', '--lib', 'es2023,dom'],
  ...['--module', 'esnext', '--moduleResolution', 'bundler'],
]

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
