// What administrators do, by a request and by a command.
import { randomInt, randomUUID } from 'node:crypto'
import type { ThrottleScope } from '../../../src/domain/attempt.ts'
import type { AuditAction } from '../../../src/domain/audit.ts'
import type { User } from '../../../src/domain/user.ts'
import { clientScopes } from '../../../src/login/scopes.ts'
import { toCountedClient } from '../../../src/system/client-group.ts'
import { digestOf } from '../../../src/system/identifiers.ts'
import { addTestFactor, changeAt, makeScopes } from '../fixtures.ts'
import type { Case, Operations } from './loop.ts'
import { BUDGETS, LIMITS, matches, NEW_PASSWORD, type Subjects } from './subjects.ts'

const PASSWORD = `"password":"${NEW_PASSWORD}"`
const FAR = new Date('9999-01-01')

/** A user that has a session, and what else a command or request can name. */
type Subject = Record<'EMAIL' | 'USER' | 'SESSION' | 'CLIENT' | 'NAME', string>

/** In its words, the name of a part of the subject stands for the part. A request ends with its body, if it has one. */
type Deed = [
  command: string | null,
  request: string | null,
  /** The event in the audit, and its target. */
  audited?: `${AuditAction} ${keyof Subject}` | null,
  isDone?: (subject: Subject) => Promise<boolean>,
]

/** What is several transactions. After `POST /users` the new user is read for the answer. */
const IN_PARTS =
  /^(POST \/users|PATCH .*"role"|users delete|DELETE \/users\/EMAIL|sessions end --all)/

/** All that can be done in this way. `perform` gets the words, in which the parts of a subject are. */
export function administration<Outcome>(
  subjects: Subjects,
  kind: 'command' | 'request',
  perform: (words: string) => Promise<Outcome>,
): Operations<Outcome> {
  const { deeds, preparations } = describeDeeds(subjects)

  async function prepare(words: string, audited: Deed[2], isDone: Deed[3]): Promise<Case<Outcome>> {
    const absent = { id: randomUUID(), email: `${randomUUID()}@example.com`, sessionId: '' }
    const isAdded = audited === 'user.added EMAIL'
    const { id, email, sessionId } = isAdded ? absent : await subjects.newUser()
    const network = [randomInt(1, 0x10000), randomInt(1, 0x10000)].map(part => part.toString(16))
    const subject: Subject = {
      ...{ EMAIL: email, USER: id, SESSION: sessionId, NAME: randomUUID() },
      CLIENT: `2001:db8:${network.join(':')}::1`,
    }
    const fill = (text: string) =>
      Object.entries(subject).reduce((filled, [name, part]) => filled.replace(name, part), text)
    if (audited) await preparations[audited]?.(subject)
    const [action = '', target = ''] = audited ? fill(audited).split(' ') : []
    return {
      email,
      ...(isAdded && { success: 201 }),
      isInParts: IN_PARTS.test(words),
      run: () => perform(fill(words)),
      ...(isDone && { isDone: () => isDone(subject) }),
      ...(audited && { countEvents: () => subjects.countEvents(target, action) }),
    }
  }

  const operations = deeds.flatMap(([command, request, ...effect]) => {
    const words = kind === 'command' ? command : request
    return words === null ? [] : [[words, () => prepare(words, ...effect)] as const]
  })
  return Object.fromEntries(operations)
}

function describeDeeds({ store, now, hasUser, countLive }: Subjects) {
  const { users, adminTokens, attempts, throttle } = store
  const isUser =
    (isAsExpected: (user: User) => boolean) =>
    ({ EMAIL }: Subject) =>
      hasUser(EMAIL, isAsExpected)
  const hasNoSession = async ({ USER }: Subject) => (await countLive(USER)) === 0
  const hasNoFactor = async ({ USER }: Subject) =>
    (await store.secondFactors.list(USER)).factors.length === 0
  const hasToken = async ({ NAME }: Subject) => {
    const all = await adminTokens.list({ after: '', limit: 10_000 })
    return all.some(({ name }) => name === NAME)
  }

  const isRevoked = async (subject: Subject) => !(await hasToken(subject))
  const isThere = isUser(() => true)
  const isGone = async (subject: Subject) => !(await isThere(subject))
  const isActive = isUser(user => user.isActive)
  const isInactive = isUser(user => !user.isActive)
  const isLocked = isUser(({ lockedBy }) => lockedBy === 'administrator')
  const isUnlocked = isUser(({ lockedUntil }) => lockedUntil === null)
  const isRenamed = isUser(({ name }) => name === 'New')
  const isSet = isUser(matches(NEW_PASSWORD))
  const isTemporary = isUser(({ temporaryUntil }) => temporaryUntil !== null)

  const scopesOf = ({ CLIENT }: Subject) => {
    const client = toCountedClient(CLIENT)
    if (!client) throw new Error('that is not an address')
    return clientScopes(client, BUDGETS)
  }
  async function fail(scopes: ThrottleScope[], email: string, userId: string | null) {
    await attempts.reserve(scopes, email, now())
    await attempts.fail(scopes, userId, now())
  }
  const areZero = (states: { failures: number }[]) => states.every(({ failures }) => failures === 0)
  const isCleared = async ({ EMAIL }: Subject) =>
    areZero(await throttle.readOfEmail(digestOf(EMAIL), LIMITS, now()))
  const isClientCleared = async (subject: Subject) =>
    areZero(await throttle.read(scopesOf(subject), now()))

  async function addToken({ NAME }: Subject) {
    const token = { name: NAME, digest: digestOf(NAME), role: 'read' } as const
    await adminTokens.insert({ ...token, expiresAt: FAR }, changeAt(now()))
  }
  const preparations: Record<string, (subject: Subject) => Promise<unknown>> = {
    'user.activated EMAIL': ({ USER }) => users.deactivate(USER, changeAt(now())),
    'user.unlocked EMAIL': ({ USER }) => users.lock(USER, FAR, changeAt(now())),
    'throttle.cleared EMAIL': ({ EMAIL, USER }) => fail(makeScopes(EMAIL), EMAIL, USER),
    'throttle.cleared CLIENT': subject => fail(scopesOf(subject), 'unknown@example.com', null),
    'token.revoked NAME': addToken,
    'second_factor.reset EMAIL': ({ EMAIL, USER }) => addTestFactor(store, USER, EMAIL, now()),
  }
  const deeds: Deed[] = [
    ['users add EMAIL --name Name --password-stdin', null, 'user.added EMAIL', isThere],
    ['users add EMAIL --name Name --generate', null, 'user.added EMAIL', isThere],
    [null, `POST /users {"email":"EMAIL","name":"Name",${PASSWORD}}`, 'user.added EMAIL', isThere],
    [null, 'GET /users'],
    [null, 'GET /throttle'],
    [null, 'GET /throttle?email=EMAIL'],
    [null, 'GET /audit'],
    [null, 'GET /users/USER'],
    [null, 'GET /users/USER/sessions'],
    // Recorded before anything is read.
    ['users export-data EMAIL', 'GET /users/USER/data'],
    ['users export', null],
    [
      'users set EMAIL --name New',
      'PATCH /users/USER {"name":"New"}',
      'user.changed EMAIL',
      isRenamed,
    ],
    [
      null,
      'PATCH /users/USER {"role":"editor","isActive":false}',
      'user.deactivated EMAIL',
      isInactive,
    ],
    ['users set-password EMAIL --password-stdin', null, 'password.set EMAIL', isSet],
    [null, `PUT /users/USER/password {${PASSWORD}}`, 'password.set EMAIL', isSet],
    [null, 'PUT /users/USER/password {"generate":true}', 'password.set EMAIL', isTemporary],
    ['users deactivate EMAIL', null, 'user.deactivated EMAIL', isInactive],
    ['users activate EMAIL', null, 'user.activated EMAIL', isActive],
    ['users lock EMAIL', 'PUT /users/USER/lock {}', 'user.locked EMAIL', isLocked],
    ['users unlock EMAIL', 'DELETE /users/USER/lock', 'user.unlocked EMAIL', isUnlocked],
    [
      'users reset-second-factor EMAIL',
      'DELETE /users/EMAIL/second-factor',
      'second_factor.reset EMAIL',
      hasNoFactor,
    ],
    ['users delete EMAIL --yes', 'DELETE /users/EMAIL', null, isGone],
    ['sessions end EMAIL', 'DELETE /users/USER/sessions', 'sessions.ended EMAIL', hasNoSession],
    ['sessions end SESSION', 'DELETE /sessions/SESSION', 'session.ended SESSION', hasNoSession],
    ['sessions end --all --yes', null, null, hasNoSession],
    ['throttle clear --email EMAIL', null, 'throttle.cleared EMAIL', isCleared],
    [null, 'DELETE /throttle?email=EMAIL', 'throttle.cleared EMAIL', isCleared],
    ['throttle clear --client CLIENT', null, 'throttle.cleared CLIENT', isClientCleared],
    [null, 'DELETE /throttle?client=CLIENT', 'throttle.cleared CLIENT', isClientCleared],
    ['admin-tokens add NAME --role read', null, 'token.added NAME', hasToken],
    ['admin-tokens revoke NAME', null, 'token.revoked NAME', isRevoked],
  ]
  return { deeds, preparations }
}
