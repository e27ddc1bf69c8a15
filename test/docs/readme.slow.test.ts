// The commands of the README and the demo work.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { createDeployment, PROJECT } from '../support/process.ts'
import { WITH_THREADS } from '../support/service.ts'

const run = promisify(execFile)
const readme = readFileSync(join(PROJECT, 'README.md'), 'utf8')
const blocks = [...readme.matchAll(/```sh\n(.*?)```/gs)].map(match => match[1] ?? '')

test('the README’s first user logs in with the README’s request', async context => {
  const deployment = await createDeployment('sqlite', WITH_THREADS)
  context.after(() => deployment.remove())
  const service = await deployment.start()
  const block = blocks.find(candidate => candidate.includes('users add')) ?? ''
  const [add = '', ...curl] = block.trim().split('\n')
  await run('sh', ['-c', add], { cwd: PROJECT, env: { ...process.env, ...deployment.env } })

  const [, path = ''] = /https:\/\/localhost:8443(\S+)/.exec(curl.join(' ')) ?? []
  const [, type = ''] = /-H 'Content-Type: ([^']+)'/.exec(curl.join(' ')) ?? []
  const [, body = ''] = /-d '([^']+)'/.exec(curl.join(' ')) ?? []
  const answer = await service.call({ path, headers: { 'Content-Type': type }, body })
  assert.equal(answer.status, 200)
  assert.equal(answer.json.data.user.email, 'kate@example.com')
})

test('the demo prints answers of every status and no token, and ends by Ctrl-C', async () => {
  const demo = spawn(process.execPath, [join(PROJECT, 'demo/tour.ts')], { cwd: PROJECT })
  let stdout = ''
  for await (const text of demo.stdout.setEncoding('utf8')) {
    stdout += text
    if (stdout.includes('Ctrl-C')) demo.kill('SIGINT')
  }
  if (demo.exitCode === null) await once(demo, 'exit')
  assert.equal(demo.exitCode, 0)
  for (const status of ['200 OK', '400', '401', '429', '405']) {
    assert.ok(stdout.includes(`HTTP/1.1 ${status}`), status)
  }
  assert.match(stdout, /same to the byte: yes/)
  assert.match(stdout, /^The page: https:\/\/\S+\/login, for ben@example.com/m)
  assert.doesNotMatch(stdout, /eyJ[\w-]{30}/)
})
