// Debian's sqlite3, which is older than the SQLite of Node, on a file of the service.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { own } from '../../support/own.ts'
import { createDeployment } from '../../support/process.ts'

test("Debian's sqlite3 finds no fault in a file of the service", async () => {
  const deployment = await own(createDeployment('sqlite'))
  const { config, rows } = deployment.database
  assert.ok(config.engine === 'sqlite')
  await deployment.addUser('kate@example.com')
  // An event without fields, as that of an ended session.
  await rows(`insert into audit_events (at, actor_kind, actor, host, action, target)
    values ('2030-01-31T12:00:00.000Z', 'user', 'root', 'login1', 'session.ended', 'ann@example.com')`)
  const checks = [config.file, 'pragma integrity_check; pragma foreign_key_check']
  assert.equal((await promisify(execFile)('sqlite3', checks)).stdout, 'ok\n')
})
