// Logins that are refused for all kinds of reasons, and must look alike: of accounts without, with one and with eleven
// second factors. Each kind has its own account: PostgreSQL reads a row more slowly, the more often it has been changed.
import { addPasskeys, newUserWithApp } from './authenticator.ts'
import { PASSWORD, type TestService } from './service.ts'

export type Refused = {
  name: string
  /** In the log. */
  reason: string
  email: string
  password: string
  /** Made at the time of the attempt. */
  otp: () => string
}

const WRONG = 'not the password'
/** The codes of the next twelve hours are used up. A time that is too far ahead would be ignored. */
const USED_UP = `update second_factors set used_to = '${new Date(Date.now() + 12 * 3_600_000).toISOString()}'`
/** No more codes may be tried. */
const EXHAUSTED = 'update users set failed_second_steps = 100'

type WithApp = Awaited<ReturnType<typeof newUserWithApp>> & { wrongCode: string }
type Kind = {
  reason: string
  password?: string
  otp: (user: WithApp) => string
  /** Run for the account. */
  change?: string
}

const rightCode = ({ app }: WithApp) => app.code()
const KINDS: Record<string, Kind> = {
  'wrong password': { reason: 'wrong-password', password: WRONG, otp: () => '' },
  'wrong password, right code': { reason: 'wrong-password', password: WRONG, otp: rightCode },
  'no code': { reason: 'code-missing', otp: () => '' },
  'wrong code': { reason: 'code-wrong', otp: ({ wrongCode }) => wrongCode },
  'replayed code': { reason: 'code-used', otp: rightCode, change: USED_UP },
  'early code': { reason: 'code-early', otp: ({ app }) => app.code(5) },
  'late code': { reason: 'code-late', otp: ({ app }) => app.code(-5) },
  'exhausted codes': { reason: 'too-many-guesses', otp: rightCode, change: EXHAUSTED },
  'used recovery code': {
    ...{ reason: 'code-used', otp: ({ recoveryCodes }) => recoveryCodes[0] ?? '' },
    change: `update recovery_codes set used_at = '2020-01-01T00:00:00.000Z'`,
  },
  'lost key': {
    ...{ reason: 'factor-unreadable', otp: rightCode },
    change: `update second_factors set secret = 'lost.' || secret`,
  },
}

export async function createRefused(
  service: TestService,
  newAddress: () => string,
): Promise<Refused[]> {
  const wrong = { reason: 'wrong-password', password: WRONG }
  const unknown = { reason: 'unknown-email', password: PASSWORD }
  const refused: Refused[] = [
    { name: 'unknown email', ...unknown, email: 'unknown@example.com', otp: () => '' },
    { name: 'unknown email, code', ...unknown, email: 'unknown2@example.com', otp: () => '123456' },
    { name: 'without, wrong password', ...wrong, email: await service.newUser(), otp: () => '' },
    { name: 'without, and a code', ...wrong, email: await service.newUser(), otp: () => '123456' },
  ]
  for (const [factors, passkeys] of [
    ['one', 0],
    ['eleven', 10],
  ] as const) {
    for (const [name, { reason, password = PASSWORD, otp, change }] of Object.entries(KINDS)) {
      const made = await newUserWithApp(service, newAddress)
      // Finding one takes longer than computing a right one, which is felt by the attempt after it.
      const user = { ...made, wrongCode: made.app.wrongCode() }
      const { id = '' } = (await service.store.users.findByEmail(user.email)) ?? {}
      await addPasskeys(service.database, id, passkeys)
      if (change) {
        const column = change === EXHAUSTED ? 'id' : 'user_id'
        await service.database.rows(`${change} where ${column} = '${id}'`)
      }
      const { email } = user
      refused.push({ name: `${factors}, ${name}`, reason, email, password, otp: () => otp(user) })
    }
  }
  return refused
}
