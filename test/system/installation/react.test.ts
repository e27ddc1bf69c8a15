// Compiles examples/use-login.ts with React's types, and runs it in React against a service.
import assert from 'node:assert/strict'
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import bcrypt from 'bcrypt'
import { changeAt } from '../../storage/fixtures.ts'
import { own } from '../../support/own.ts'
import { PROJECT } from '../../support/process.ts'
import { makeRecipeFolder } from '../../support/recipes.ts'
import { PASSWORD, startTestService, TEST_COST } from '../../support/service.ts'

const TOOLS = join(PROJECT, 'test/system/installation/tools')
const PACKAGES = join(TOOLS, 'node_modules')
const EMAIL = 'kate@example.com'

test('the React hook compiles, and shows the user and the error of each call', async () => {
  const service = await own(startTestService('sqlite'))
  const certFile = join(service.dataDir, 'development-cert.pem')
  const folder = await own(makeRecipeFolder({}, certFile, PACKAGES))
  const id = await service.addUser(EMAIL)
  const until = new Date(service.now().getTime() + 3_600_000)
  const hash = await bcrypt.hash(PASSWORD, TEST_COST)
  await service.store.users.setPassword(id, hash, changeAt(service.now()), until)
  for (const name of ['use-login.ts', 'login-client.d.ts']) {
    await copyFile(join(PROJECT, 'examples', name), join(folder.path, name))
  }
  await folder.run([
    ...[process.execPath, join(PACKAGES, '.bin/tsc'), '--strict', '--noEmit', '--target', 'es2022'],
    ...['--lib', 'es2022,dom', '--module', 'nodenext', 'use-login.ts'],
  ])
  await copyFile(join(TOOLS, 'call-hook.js'), join(folder.path, 'call-hook.js'))
  const env = { LOGIN_URL: service.url, EMAIL, PASSWORD }
  const printed = await folder.run([process.execPath, 'call-hook.js'], env)
  assert.deepEqual(
    printed
      .trim()
      .split('\n')
      .map(line => JSON.parse(line)),
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
      [null, null],
    ],
  )
})
