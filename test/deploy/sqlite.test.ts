// Debian's sqlite3, which is older than the SQLite of Node, on a file of the service.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { createDeployment } from '../process.ts'
import { addEvent, migrate, useRelease } from '../upgrade/releases.ts'

const servePrevious = useRelease('previous')

for (const isNew of [true, false]) {
  const origin = isNew ? 'a new file' : 'a migrated file of the previous release'
  test(`Debian's sqlite3 finds no fault in ${origin}`, async t => {
    const deployment = await createDeployment('sqlite', {}, undefined, isNew)
    t.after(() => deployment.remove())
    const { config } = deployment.database
    assert.ok(config.engine === 'sqlite')
    if (!isNew) await deployment.start({}, { command: servePrevious() })
    await addEvent(deployment)
    const { exit, output } = migrate(deployment)
    assert.deepEqual(await exit, { code: 0, signal: null }, output())
    const checks = [config.file, 'pragma integrity_check; pragma foreign_key_check']
    assert.equal((await promisify(execFile)('sqlite3', checks)).stdout, 'ok\n')
  })
}
