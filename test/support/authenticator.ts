// An authenticator app, and users that have one. It computes its codes by itself, so that two implementations of
// RFC 6238 check each other.
import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { toBase32 } from '../../src/login/totp.ts'
import { type Answer, type Call, PASSWORD } from './service.ts'
import { AUTH } from './session-client.ts'

export const STEP_MS = 30_000
export const SECOND_FACTOR = `${AUTH}/second-factor`

export type Authenticator = ReturnType<typeof createAuthenticator>

export function createAuthenticator(now: () => Date, secret: Buffer = randomBytes(20)) {
  return {
    secret: toBase32(secret),
    /** The code of the current step, or of one so many steps later. */
    code(steps = 0): string {
      const counter = Buffer.from(
        (BigInt(Math.floor(now().getTime() / STEP_MS)) + BigInt(steps))
          .toString(16)
          .padStart(16, '0'),
        'hex',
      )
      const mac = [...createHmac('sha1', secret).update(counter).digest()]
      const start = (mac[19] ?? 0) % 16
      const bytes = mac.slice(start, start + 4)
      const number = bytes.reduce((sum, byte) => sum * 256 + byte, 0) % 2 ** 31
      return String(number).slice(-6).padStart(6, '0')
    },
    /** A code that is not right within ten steps of now. */
    wrongCode(index = 0): string {
      const right = Array.from({ length: 21 }, (_, step) => this.code(step - 10))
      const wrong = Array.from({ length: 300 }, (_, number) => String(100_000 + 7 * number))
      return wrong.filter(code => !right.includes(code))[index] ?? ''
    },
  }
}

type Caller = {
  now: () => Date
  call: (request: Call) => Promise<Answer>
  newUser: () => Promise<string>
  advance: (ms: number) => void
}

/** A user with an app. Its clock is one step later, so that the app's next code is not used up. */
export async function newUserWithApp(
  service: Caller,
  from: () => string,
  email: string | null = null,
) {
  const user = email ?? (await service.newUser())
  const app = createAuthenticator(service.now)
  const body = { email: user, password: PASSWORD, secret: app.secret, newOtp: app.code() }
  const answer = await service.call({ path: SECOND_FACTOR, body, from: from() })
  assert.equal(answer.status, 200, answer.text)
  service.advance(STEP_MS)
  return { email: user, app, answer, recoveryCodes: answer.json.data.recoveryCodes ?? [] }
}
