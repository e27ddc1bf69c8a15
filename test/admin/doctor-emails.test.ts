// The doctor finds users that can never log in because their email is not stored in canonical form.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Finding } from '../../src/system/finding.ts'
import { setUpCli } from '../support/cli.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'

for (const engine of ENGINES_BY_RUN) {
  test(`emails that no login can match are counted, and three of them are shown, on ${engine}`, async () => {
    const { run, database } = await setUpCli(engine)
    const insert = (emails: string) =>
      database.rows(
        `insert into users (email, name, password_hash) select email, 'A', '' from (${emails}) as added`,
      )
    const emailsFound = async () => {
      const findings: Finding[] = JSON.parse((await run(['doctor', '--json'])).stdout)
      const { state, detail } = findings.find(({ check }) => check === 'emails') ?? {}
      return `${state}: ${detail}`
    }
    await insert(`select 'ann@example.org' as email union select 'Änn@example.org'`)
    assert.equal(await emailsFound(), 'ok: 2 stored, each in the form that a login looks up')
    await insert(`select 'Bob@example.org' as email`)
    assert.match(
      await emailsFound(),
      /^warning: 1 of 3 can never log in, .*: "Bob@example\.org"; correct them in the database$/,
    )
    // More than the doctor reads in one batch.
    const control = engine === 'sqlite' ? 'char(7, 27)' : 'chr(7) || chr(27)'
    await insert(
      `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 12000)
       select ' ' || n || '@example.org' || ${control} as email from numbers`,
    )
    const found = await emailsFound()
    assert.match(found, /^warning: 12001 of 12003 can never log in, .* and others; correct them/)
    assert.equal(found.split('@example.org').length - 1, 3)
    assert.doesNotMatch(found, /\p{Cc}/u)
  })
}
