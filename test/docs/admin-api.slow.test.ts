// The commands of docs/admin-api.md work.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { freePort } from '../support/postgres-server.ts'
import { BASE_ENV, createDeployment, PROJECT } from '../support/process.ts'

const doc = readFileSync(join(PROJECT, 'docs/admin-api.md'), 'utf8')

test('the commands work as they are printed', async t => {
  const deployment = await createDeployment('sqlite')
  t.after(() => deployment.remove())
  const ADMIN_PORT = String(await freePort())
  const env = { ...BASE_ENV, ...deployment.env, HOME: deployment.dataDir }
  await deployment.start({ ADMIN_PORT })
  const blocks = [...doc.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block)
  assert.equal(blocks.length, 3)
  // A declared token is known, and may not read.
  const declared = 'TOKEN=$DECLARED; admin $URL/users || [ $? = 22 ]'
  const script = [...blocks, declared]
    .join('\n')
    .replace('localhost:8444', `localhost:${ADMIN_PORT}`)
  const { stdout } = await promisify(execFile)('sh', ['-ec', script], { cwd: PROJECT, env })
  const answers = stdout.trim().split('\n')
  assert.equal(JSON.parse(answers.pop() ?? '').error.code, 'FORBIDDEN')
  assert.equal(answers.length, script.match(/^admin .*(URL|\\$)/gm)?.length)
  const [added, listed, explained] = answers.map(answer => JSON.parse(answer))
  for (const answer of answers) assert.equal(JSON.parse(answer).success, true, answer)
  assert.equal(added.data.email, 'kim@example.com')
  assert.equal(listed.data.users.length, 1)
  assert.equal(explained.data.verdict.kind, 'can-log-in')
})
