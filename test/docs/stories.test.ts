// The transcripts in docs/operations.md: commands run against a service that was attacked as the text says.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { newUserWithApp } from '../support/authenticator.ts'
import { createCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { PROJECT } from '../support/process.ts'
import { type Call, PASSWORD, startTestService } from '../support/service.ts'

const text = readFileSync(join(PROJECT, 'docs/operations.md'), 'utf8')
const transcripts = [...text.matchAll(/```console\n(.*?)\n```/gs)].map(match => match[1] ?? '')

/** As on a terminal, without what differs from run to run: times, ids, passwords and the administrator. */
const masked = (transcript: string) =>
  transcript
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|<time-+>/g, '<time>')
    .replace(/\b[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\b/g, '<id>')
    .replace(/cost \d+/g, 'cost <n>')
    .replace(/^(<time>.* )\S+$/gm, '$1<actor>')
    .replace(/^[\da-z]{4}(-[\da-z]{4}){4}$/gm, '<password>')
    .replace(/^! (admin\.\w+: )?/gm, '')
    .replace(/^\? 1\n/gm, '')

for (const engine of ENGINES_BY_RUN) {
  test(`the stories in docs/operations.md are true, on ${engine}`, async () => {
    const service = await own(startTestService(engine, { TRUST_PROXY: '127.0.0.1' }))
    const cli = await own(createCli(service.database))
    const call = (ip: string, { from: _, ...given }: Call) => {
      const headers = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': ip }
      return service.call({ ...given, headers })
    }
    const login = async (ip: string, email: string, password: string, otp?: string) =>
      (await call(ip, { body: { email, password, otp } })).status
    const replay = async (transcript: string) =>
      assert.equal(masked(await cli.replay(transcript, cli.run)), masked(transcript))
    for (const name of ['Ann', 'Ben', 'Cat']) {
      await service.addUser(`${name}@example.com`, { name })
    }
    assert.equal(transcripts.length, 3)
    const [whyNot = '', lostPhone = '', attack = ''] = transcripts

    // Ann has logged in at home, and tries an old password at the office.
    assert.equal(await login('198.51.100.20', 'ann@example.com', PASSWORD), 200)
    for (let i = 0; i < 5; i++) await login('203.0.113.7', 'ann@example.com', 'an old password')
    assert.equal(await login('203.0.113.7', 'ann@example.com', PASSWORD), 429)
    await replay(whyNot)
    assert.equal(await login('203.0.113.7', 'ann@example.com', PASSWORD), 200)

    // Four clients guess at Ben's password; one in the office tries a password with 50 emails.
    for (const client of [1, 2, 3, 4]) {
      for (let i = 0; i < 5; i++) await login(`192.0.2.${client}`, 'ben@example.com', `guess ${i}`)
    }
    assert.equal(await login('192.0.2.5', 'ben@example.com', PASSWORD), 429)
    for (let i = 0; i < 50; i++) await login('203.0.113.7', `name${i}@example.com`, 'summer2030')
    assert.equal(await login('203.0.113.7', 'cat@example.com', PASSWORD), 429)
    await replay(attack)
    assert.equal(await login('203.0.113.7', 'cat@example.com', PASSWORD), 200)

    // A thief knows Dora's password, tries four codes and calls the help desk.
    const [home, thief, email] = ['198.51.100.22', '192.0.2.9', 'dora@example.com']
    await service.addUser(email)
    const { app } = await newUserWithApp(
      { ...service, call: given => call(home, given) },
      () => home,
      email,
    )
    for (let i = 0; i < 4; i++) await login(thief, email, PASSWORD, app.wrongCode(i))
    await replay(lostPhone)
    assert.equal(await login(thief, email, PASSWORD), 401)

    // The lines about one user: those with the typed email, and those that have only the id.
    const recipe = /\n(id=.*?)\n```/s.exec(text)?.[1] ?? ''
    await writeFile(join(cli.folder, 'log'), service.logText())
    const eventsOf = async (email: string) => {
      const shown = await cli.run(['users', 'show', email, '--json'])
      await writeFile(join(cli.folder, 'user.json'), shown.stdout)
      const script = recipe
        .replace(/\.\/login-service .*? --json/, 'cat user.json')
        .replace(/journalctl [^|]*/, 'cat log ')
        .replace('kate@example\\.com', email)
      const found = execFileSync('sh', ['-c', script], { cwd: cli.folder, encoding: 'utf8' })
      const lines = Array.from(found.trim().split('\n'), line => JSON.parse(line))
      assert.ok(lines.every(line => line.count || line.userId || line.email === email))
      return [...new Set(lines.filter(line => !line.count).map(({ event }) => event))].toSorted()
    }
    const [ann, ben] = [await eventsOf('ann@example.com'), await eventsOf('ben@example.com')]
    assert.deepEqual(ann, ['login.failed', 'login.succeeded', 'login.throttled'])
    assert.deepEqual(ben, ['account.locked', 'login.failed', 'login.throttled'])
  })
}
