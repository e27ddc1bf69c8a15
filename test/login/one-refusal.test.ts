// One answer for everything: whatever is wrong with a second step, its refusal is that of a wrong password.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SECOND_FACTOR } from '../support/authenticator.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { createPasskey, join } from '../support/passkey.ts'
import { createRefused, type Refused, type SentProof } from '../support/refused.ts'
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
const REPLACEMENT = { secret: 'QZ4KM7TDWX2HRB5N3VGLCYEJ6UAFS7PO', newOtp: '1' }

type Typed = Pick<Refused, 'email' | 'password'> & SentProof
const form = (path: string, { passkey, ...typed }: Typed, fields = {}): Call => ({
  ...{ path: `/login${path}`, headers: FORM },
  body: String(new URLSearchParams({ ...typed, passkey: passkey ? join(passkey) : '', ...fields })),
})
const API: Record<string, (typed: Typed) => Call> = {
  'a login': body => ({ body }),
  'a change of the password': ({ password: currentPassword, ...typed }) => ({
    path: `${AUTH}/password`,
    body: { ...typed, currentPassword, newPassword: NEW_PASSWORD },
  }),
  'a removal': typed => ({ path: SECOND_FACTOR, body: { ...typed, secret: null } }),
  'a new passkey': typed => ({
    path: SECOND_FACTOR,
    body: { ...typed, newPasskey: createPasskey().create('') },
  }),
  'a replacement whose new code is wrong too': typed => ({
    path: SECOND_FACTOR,
    body: { ...typed, ...REPLACEMENT },
  }),
  'new recovery codes': typed => ({ path: SECOND_FACTOR, body: { ...typed, recoveryCodes: true } }),
}
const FORMS: typeof API = {
  'the form': typed => form('', typed),
  'the form of the password': typed => form('/password', typed, { 'new-password': NEW_PASSWORD }),
}
/** They ask for a code only if the page knows that there is a factor, and then refuse an empty one at once. */
const FORMS_WITH_CODE: typeof API = {
  'the form of a replacement': typed =>
    form('/second-factor', typed, { secret: REPLACEMENT.secret, 'new-otp': REPLACEMENT.newOtp }),
  'the form of new recovery codes': typed => form('/second-factor/recovery-codes', typed),
  'the form of a removal': typed => form('/second-factor/app/remove', typed),
}

/** A page has the typed email again, also in its QR code. */
function withoutEmail(page: string, email: string): string {
  return page
    .replaceAll(email, '')
    .replaceAll(encodeURIComponent(email), '')
    .replace(/<path d="[^"]*"/, '')
}

for (const engine of ENGINES_BY_RUN) {
  describe(`a refusal on ${engine}`, async () => {
    const service = await own(startTestService(engine, UNLIMITED))
    const newAddress = createAddresses()
    const refused = await createRefused(service, newAddress)

    for (const [way, toCall] of Object.entries({ ...API, ...FORMS, ...FORMS_WITH_CODE })) {
      test(`of ${way} is the same for everything that is wrong, byte for byte`, async () => {
        const isSent = ({ otp, passkey }: SentProof) => otp !== '' || passkey
        const kinds = refused.filter(({ proof }) => !(way in FORMS_WITH_CODE) || isSent(proof()))
        const answers: unknown[] = []
        const lines = await loggedBy(service, async () => {
          for (const { email, password, proof } of kinds) {
            const call = { ...toCall({ email, password, ...proof() }), from: newAddress() }
            const { status, headers, text } = await service.call(call)
            const { date: _, 'x-request-id': __, 'content-length': ___, ...comparable } = headers
            answers.push({ status, headers: comparable, text: withoutEmail(text, email) })
          }
        })
        const [first] = answers
        const { status, text } = Object(first)
        assert.equal(status, 401)
        if (way in API) assert.equal(text, REJECTED)
        for (const [index, answer] of answers.entries()) {
          assert.deepEqual(answer, first, kinds[index]?.name)
        }
        const failures = lines.filter(({ event }) => event === 'login.failed')
        assert.deepEqual(
          failures.map(({ reason }, index) => [kinds[index]?.name, reason]),
          kinds.map(({ name, reason }) => [name, reason]),
        )
      })
    }

    test('uses up nothing, opens no session and forgets no device', async () => {
      const rows = await service.database.rows(`select
        (select count(*) from sessions where ended_at is null) as sessions,
        (select count(*) from second_factors where last_used_at is not null) as used,
        (select count(*) from second_factors where kind = 'totp') as factors,
        (select count(*) from recovery_codes where used_at > '2021-01-01T00:00:00.000Z') as codes`)
      const accounts = refused.filter(({ name }) => !/^(unknown|without)/.test(name)).length
      assert.deepEqual(
        Object.values(rows[0] ?? {}).map(Number),
        // The sessions are those of the set-ups.
        [accounts, 0, accounts, 0],
      )
    })
  })
}
