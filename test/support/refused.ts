// Logins that are refused for all kinds of reasons, and must look alike: of accounts without, with one and with eleven
// second factors. Each kind has its own account: PostgreSQL reads a row more slowly, the more often it has been changed.
import { after } from 'node:test'
import type { Assertion } from '../../src/login/passkey.ts'
import { newUserWithApp } from './authenticator.ts'
import {
  addPasskey,
  addPasskeys,
  challengeOf,
  createPasskey,
  KEY_KINDS,
  type Passkey,
  type Tampered,
} from './passkey.ts'
import { PASSWORD, type TestService } from './service.ts'

/** A code, or a passkey in its place. */
export type SentProof = { otp: string; passkey?: Assertion }

export type Refused = {
  name: string
  /** In the log. */
  reason: string
  email: string
  password: string
  /** Made at the time of the attempt. */
  proof: () => SentProof
  /** The name of one that is sent alike: what is sent may make a difference. */
  like: string
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

type PasskeyKind = Omit<Kind, 'otp'> & { tampered?: Tampered; isForeign?: true }
/** A use of a passkey that the account has, unless it is foreign. */
const PASSKEY_KINDS: Record<string, PasskeyKind> = {
  'wrong password': { reason: 'wrong-password', password: WRONG },
  'foreign passkey': { reason: 'passkey-unknown', isForeign: true },
  'another domain': { reason: 'passkey-wrong', tampered: { rpId: 'example.com' } },
  'another page': {
    reason: 'passkey-elsewhere',
    tampered: { client: { origin: 'https://evil.example' } },
  },
  'replayed passkey': {
    reason: 'passkey-used',
    change: `update second_factors set used_to = '{now}'`,
  },
  'exhausted codes': { reason: 'too-many-guesses', change: EXHAUSTED },
}

/** The clock of the service stands still from then on. */
export async function createRefused(
  service: TestService,
  newAddress: () => string,
): Promise<Refused[]> {
  service.stopClock({ after })
  const refused: Refused[] = []
  const changes: string[] = []
  const add = (
    [name, reason, email, password]: string[],
    proof: Refused['proof'],
    like = 'without, wrong password',
  ) => {
    const texts = { name: `${name}`, reason: `${reason}`, email: `${email}` }
    refused.push({ ...texts, password: password ?? PASSWORD, proof, like })
  }
  const otp = (code = '') => ({ otp: code })
  add(['unknown email', 'unknown-email', 'unknown@example.com'], () => otp())
  add(['unknown email, code', 'unknown-email', 'unknown2@example.com'], () => otp('123456'))
  add(['without, wrong password', 'wrong-password', await service.newUser(), WRONG], () => otp())
  add(['without, and a code', 'wrong-password', await service.newUser(), WRONG], () =>
    otp('123456'),
  )

  async function newHolder(passkeys: number, passkey: Passkey | null, change = '') {
    const made = await newUserWithApp(service, newAddress)
    const { id = '' } = (await service.store.users.findByEmail(made.email)) ?? {}
    await addPasskeys(service.database, id, passkeys)
    if (passkey) await addPasskey(service.database, id, passkey.create(''))
    const column = change === EXHAUSTED ? 'id' : 'user_id'
    if (change) changes.push(`${change} where ${column} = '${id}'`)
    return made
  }
  for (const [factors, passkeys] of [
    ['one', 0],
    ['eleven', 10],
  ] as const) {
    for (const [name, { reason, password = PASSWORD, otp, change }] of Object.entries(KINDS)) {
      const made = await newHolder(passkeys, null, change)
      // Finding one takes longer than computing a right one, which is felt by the attempt after it.
      const user = { ...made, wrongCode: made.app.wrongCode() }
      add([`${factors}, ${name}`, reason, user.email, password], () => ({ otp: otp(user) }))
    }
  }
  /** That of the end, because each holder moves the clock. */
  let challenge = ''
  for (const kind of KEY_KINDS) {
    const like = `without, wrong password, ${kind}`
    const foreign = createPasskey(kind)
    const proofOf = (passkey: Passkey, tampered?: Tampered) => () => ({
      ...{ otp: '', passkey: passkey.get(challenge, tampered) },
    })
    const without = await service.newUser()
    const email = `${kind}@example.com`
    add([`unknown email, ${kind}`, 'unknown-email', email], proofOf(foreign), like)
    add([like, 'wrong-password', without, WRONG], proofOf(foreign), like)
    const others = kind === 'EdDSA' ? 9 : 0
    for (const [name, given] of Object.entries(PASSKEY_KINDS)) {
      const passkey = createPasskey(kind)
      const { email } = await newHolder(others, passkey, given.change)
      const sent = given.isForeign ? foreign : passkey
      const texts = [`${kind}, ${others + 2}, ${name}`, given.reason, email]
      add([...texts, given.password ?? PASSWORD], proofOf(sent, given.tampered), like)
    }
  }
  const now = service.now().toISOString()
  for (const change of changes) await service.database.rows(change.replace('{now}', now))
  challenge = await challengeOf(service)
  return refused
}
