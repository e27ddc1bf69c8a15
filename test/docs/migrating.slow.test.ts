// Runs the code of docs/migrating.md that moves users at their next login.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createCli } from '../support/cli.ts'
import { findMachineNode } from '../support/old-node.ts'
import { freePort } from '../support/postgres-server.ts'
import { createDeployment, type Deployment, type ServiceProcess } from '../support/process.ts'
import {
  DOCUMENT_ON_MIGRATING,
  makeRecipeFolder,
  type RecipeFolder,
  recipe,
} from '../support/recipes.ts'

let deployment: Deployment
let service: ServiceProcess
let folder: RecipeFolder
let token: string

before(async () => {
  deployment = await createDeployment('sqlite')
  const cli = await createCli(deployment.database)
  token = (await cli.run(['admin-tokens', 'add', 'old-login', '--role', 'write'])).stdout.trim()
  await cli.remove()
  const port = await freePort()
  service = await deployment.start({ ADMIN_PORT: String(port) })
  const addresses = { 'https://login.example.com:8444': `https://localhost:${port}` }
  folder = await makeRecipeFolder(addresses, join(deployment.dataDir, 'development-cert.pem'))
  const code = recipe('Moving users at their next login', 'js', 0, DOCUMENT_ON_MIGRATING)
  await folder.write('move-user.js', code)
  await folder.write(
    'old-login.js',
    `import { moveUser } from './move-user.js'\nawait moveUser(JSON.parse(process.argv[2]))\n`,
  )
})
after(async () => {
  await folder?.remove()
  await deployment?.remove()
})

const oldLogin = (user: Record<string, string>) =>
  folder.run([findMachineNode(), 'old-login.js', JSON.stringify(user)], { ADMIN_TOKEN: token })

test('a user is moved at a login in the old system, once, and logs in here', async () => {
  const user = { email: 'kim@example.com', name: 'Kim', password: 'correct horse battery' }
  assert.equal((await service.login(user.email, user.password)).status, 401)
  await oldLogin(user)
  await oldLogin({ ...user, password: 'another password of the old system' })
  assert.equal((await service.login(user.email, user.password)).status, 200)
})

test('a password that is refused here does not fail the login in the old system', async () => {
  await oldLogin({ email: 'short@example.com', name: 'S', password: 'short' })
  assert.equal((await service.login('short@example.com', 'short')).status, 401)
})
