// One answer for everything: whatever is wrong with a second step, its refusal is that of a wrong password.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SECOND_FACTOR } from '../support/authenticator.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { createRefused, type Refused } from '../support/refused.ts'
import {
  type Call,
  createAddresses,
  loggedBy,
  startTestService,
  UNLIMITED,
} from '../support/service.ts'
import { AUTH, REJECTED } from '../support/session-client.ts'

const FORM = {
  'Sec-Fetch-Site': 'same-origin',
  'Content-Type': 'application/x-www-form-urlencoded',
}
const NEW_PASSWORD = 'seven green boats at noon'

type Typed = Pick<Refused, 'email' | 'password'> & { otp: string }
const form = (path: string, fields: Record<string, string>): Call => ({
  ...{ path, headers: FORM },
  body: String(new URLSearchParams(fields)),
})
const WAYS: Record<string, (typed: Typed) => Call> = {
  'a login': body => ({ body }),
  'a change of the password': ({ email, password, otp }) => ({
    path: `${AUTH}/password`,
    body: { email, currentPassword: password, newPassword: NEW_PASSWORD, otp },
  }),
  'a removal of the second factor': typed => ({
    path: SECOND_FACTOR,
    body: { ...typed, secret: null },
  }),
  'a replacement, whose new code is wrong too': typed => ({
    path: SECOND_FACTOR,
    body: { ...typed, secret: 'AAAA', newOtp: '123456' },
  }),
  'new recovery codes': typed => ({ path: SECOND_FACTOR, body: { ...typed, recoveryCodes: true } }),
  'the form': typed => form('/login', typed),
  'the form of the password': typed =>
    form('/login/password', { ...typed, 'new-password': NEW_PASSWORD }),
}

for (const engine of ENGINES_BY_RUN) {
  describe(`a refusal on ${engine}`, async () => {
    const service = await own(startTestService(engine, UNLIMITED))
    const newAddress = createAddresses()
    const refused = await createRefused(service, newAddress)

    for (const [way, toCall] of Object.entries(WAYS)) {
      test(`of ${way} is the same for everything that is wrong, byte for byte`, async () => {
        const answers: unknown[] = []
        const lines = await loggedBy(service, async () => {
          for (const { email, password, otp } of refused) {
            const { status, headers, text } = await service.call({
              ...toCall({ email, password, otp: otp() }),
              from: newAddress(),
            })
            // The form has the email again, whose length differs; no code comes back.
            const { date: _, 'x-request-id': __, 'content-length': ___, ...comparable } = headers
            answers.push({ status, headers: comparable, text: text.replaceAll(email, 'EMAIL') })
          }
        })
        const [first] = answers
        const { status, text } = Object(first)
        assert.equal(status, 401)
        if (!way.includes('form')) assert.equal(text, REJECTED)
        for (const [index, answer] of answers.entries()) {
          assert.deepEqual(answer, first, refused[index]?.name)
        }
        const failures = lines.filter(({ event }) => event === 'login.failed')
        if (way.includes('form')) return
        assert.deepEqual(
          failures.map(({ reason }, index) => [refused[index]?.name, reason]),
          refused.map(({ name, reason }) => [name, reason]),
        )
      })
    }

    test('uses up nothing, opens no session and forgets no device', async () => {
      const rows = await service.database.rows(`select
        (select count(*) from sessions where ended_at is null) as sessions,
        (select count(*) from second_factors where kind = 'totp' and last_used_at is not null) as used,
        (select count(*) from second_factors where kind = 'totp') as factors,
        (select count(*) from recovery_codes where used_at > '2021-01-01T00:00:00.000Z') as codes`)
      const accounts = refused.filter(({ name }) => /^(one|eleven),/.test(name)).length
      assert.deepEqual(
        Object.values(rows[0] ?? {}).map(Number),
        // The sessions are those of the set-ups.
        [accounts, 0, accounts, 0],
      )
    })
  })
}
