// What administrators do, by a request and by a command.
import { randomInt, randomUUID } from 'node:crypto'
import type { AuditAction } from '../../../src/domain/audit.ts'
import type { User } from '../../../src/domain/user.ts'
import { clientScopes } from '../../../src/login/scopes.ts'
import { toCountedClient } from '../../../src/system/client-group.ts'
import { digestOf } from '../../../src/system/identifiers.ts'
import { changeAt, makeScopes } from '../fixtures.ts'
import type { Case, Operations } from './loop.ts'
import { BUDGETS, LIMITS, matches, NEW_PASSWORD, type Subjects } from './subjects.ts'

/** A user that has a session, and what else a command or request can name. */
type Subject = Record<'EMAIL' | 'USER' | 'SESSION' | 'CLIENT' | 'NAME', string>

/** In commands, requests and bodies, the name of a part stands for the part. */
type Deed = Pick<Case<unknown>, 'success' | 'isInParts'> & {
  command?: string
  request?: string
  body?: object
  /** The user is not there before. */
  isAdded?: boolean
  before?: (subject: Subject) => Promise<unknown>
  /** What the audit has of it. */
  audited?: [action: AuditAction, target: keyof Subject]
  isDone?: (subject: Subject) => Promise<boolean>
}

/** `words` are those of the command or the request, with the parts of the subject. */
type Perform<Outcome> = (words: string[], body?: object) => () => Promise<Outcome>

/** All that can be done in this way. */
export function administration<Outcome>(
  subjects: Subjects,
  kind: 'command' | 'request',
  perform: Perform<Outcome>,
): Operations<Outcome> {
  const { newUser, countEvents } = subjects
  const prepare = (words: string, deed: Deed) => async (): Promise<Case<Outcome>> => {
    const absent = { id: randomUUID(), email: `${randomUUID()}@example.com`, sessionId: '' }
    const { id, email, sessionId } = deed.isAdded ? absent : await newUser()
    const network = [randomInt(1, 0x10000), randomInt(1, 0x10000)].map(part => part.toString(16))
    const subject: Subject = {
      ...{ EMAIL: email, USER: id, SESSION: sessionId, NAME: randomUUID() },
      CLIENT: `2001:db8:${network.join(':')}::1`,
    }
    const fill = (text: string) =>
      Object.entries(subject).reduce((filled, [name, part]) => filled.replace(name, part), text)
    await deed.before?.(subject)
    const { body, success, isInParts, audited, isDone } = deed
    return {
      email,
      run: perform(words.split(' ').map(fill), body && JSON.parse(fill(JSON.stringify(body)))),
      ...(success && { success }),
      ...(isInParts && { isInParts }),
      ...(isDone && { isDone: () => isDone(subject) }),
      ...(audited && { countEvents: () => countEvents(subject[audited[1]], audited[0]) }),
    }
  }
  const operations = deeds(subjects).map(deed => {
    const { [kind]: words, body } = deed
    const title = kind === 'request' && body ? `${words} ${JSON.stringify(body)}` : words
    return words === undefined ? [] : [[title, prepare(words, deed)]]
  })
  return Object.fromEntries(operations.flat())
}

function deeds({ store, now, hasUser, countLive }: Subjects): Deed[] {
  const { users, adminTokens, attempts, throttle } = store
  const isUser =
    (isAsExpected: (user: User) => boolean) =>
    ({ EMAIL }: Subject) =>
      hasUser(EMAIL, isAsExpected)
  const hasNoSession = async ({ USER }: Subject) => (await countLive(USER)) === 0
  const hasToken = async ({ NAME }: Subject) => {
    const all = await adminTokens.list({ after: '', limit: 10_000 })
    return all.some(({ name }) => name === NAME)
  }

  const isAdded: Deed = {
    isAdded: true,
    audited: ['user.added', 'EMAIL'],
    isDone: isUser(() => true),
  }
  // The new user is read for the answer.
  const isAnswered = { ...isAdded, success: 201, isInParts: true }
  const newUser = { email: 'EMAIL', name: 'Name' }
  const isLocked = isUser(({ lockedBy }) => lockedBy === 'administrator')

  const scopesOf = ({ CLIENT }: Subject) => {
    const client = toCountedClient(CLIENT)
    if (!client) throw new Error('that is not an address')
    return clientScopes(client, BUDGETS)
  }
  async function failOfEmail({ EMAIL, USER }: Subject) {
    const scopes = makeScopes(EMAIL)
    await attempts.reserve(scopes, EMAIL, now())
    await attempts.fail(scopes, USER, now())
  }
  async function failOfClient(subject: Subject) {
    await attempts.reserve(scopesOf(subject), 'unknown@example.com', now())
    await attempts.fail(scopesOf(subject), null, now())
  }

  return [
    { command: 'users add EMAIL --name Name --password-stdin', ...isAdded },
    { command: 'users add EMAIL --name Name --generate', ...isAdded },
    { request: 'POST /users', body: { ...newUser, password: NEW_PASSWORD }, ...isAnswered },
    { request: 'POST /users', body: { ...newUser, generate: true }, ...isAnswered },
    { request: 'GET /users' },
    { request: 'GET /throttle' },
    { request: 'GET /audit' },
    { request: 'GET /users/USER' },
    { request: 'GET /users/USER/sessions' },
    // Recorded before anything is read.
    { request: 'GET /users/USER/data', command: 'users export-data EMAIL' },
    { command: 'users export' },
    {
      command: 'users set EMAIL --name Another',
      ...{ request: 'PATCH /users/USER', body: { name: 'Another' } },
      audited: ['user.changed', 'EMAIL'],
      isDone: isUser(({ name }) => name === 'Another'),
    },
    {
      command: 'users set-password EMAIL --password-stdin',
      ...{ request: 'PUT /users/USER/password', body: { password: NEW_PASSWORD } },
      audited: ['password.set', 'EMAIL'],
      isDone: isUser(matches(NEW_PASSWORD)),
    },
    {
      ...{ request: 'PUT /users/USER/password', body: { generate: true } },
      audited: ['password.set', 'EMAIL'],
      isDone: isUser(({ temporaryUntil }) => temporaryUntil !== null),
    },
    {
      command: 'users deactivate EMAIL',
      audited: ['user.deactivated', 'EMAIL'],
      isDone: isUser(({ isActive }) => !isActive),
    },
    {
      ...{ request: 'PATCH /users/USER', body: { role: 'editor', isActive: false } },
      isInParts: true,
      audited: ['user.deactivated', 'EMAIL'],
      isDone: isUser(({ isActive }) => !isActive),
    },
    {
      command: 'users activate EMAIL',
      before: ({ USER }) => users.deactivate(USER, changeAt(now())),
      audited: ['user.activated', 'EMAIL'],
      isDone: isUser(({ isActive }) => isActive),
    },
    {
      command: 'users lock EMAIL',
      ...{ request: 'PUT /users/USER/lock', body: {} },
      audited: ['user.locked', 'EMAIL'],
      isDone: isLocked,
    },
    {
      command: 'users unlock EMAIL',
      request: 'DELETE /users/USER/lock',
      before: ({ USER }) => users.lock(USER, new Date('9999-01-01'), changeAt(now())),
      audited: ['user.unlocked', 'EMAIL'],
      isDone: isUser(({ lockedUntil }) => lockedUntil === null),
    },
    {
      command: 'users delete EMAIL --yes',
      request: 'DELETE /users/EMAIL',
      isInParts: true,
      isDone: async ({ EMAIL }) => (await users.findByEmail(EMAIL)) === null,
    },
    {
      command: 'sessions end EMAIL',
      request: 'DELETE /users/USER/sessions',
      audited: ['sessions.ended', 'EMAIL'],
      isDone: hasNoSession,
    },
    {
      command: 'sessions end SESSION',
      request: 'DELETE /sessions/SESSION',
      audited: ['session.ended', 'SESSION'],
      isDone: hasNoSession,
    },
    { command: 'sessions end --all --yes', isInParts: true, isDone: hasNoSession },
    { request: 'GET /throttle?email=EMAIL', before: failOfEmail },
    {
      command: 'throttle clear --email EMAIL',
      request: 'DELETE /throttle?email=EMAIL',
      before: failOfEmail,
      audited: ['throttle.cleared', 'EMAIL'],
      async isDone({ EMAIL }) {
        const states = await throttle.readOfEmail(digestOf(EMAIL), LIMITS, now())
        return states.every(({ failures }) => failures === 0)
      },
    },
    {
      command: 'throttle clear --client CLIENT',
      request: 'DELETE /throttle?client=CLIENT',
      before: failOfClient,
      audited: ['throttle.cleared', 'CLIENT'],
      async isDone(subject) {
        const states = await throttle.read(scopesOf(subject), now())
        return states.every(({ failures }) => failures === 0)
      },
    },
    {
      command: 'admin-tokens add NAME --role read',
      audited: ['token.added', 'NAME'],
      isDone: hasToken,
    },
    {
      command: 'admin-tokens revoke NAME',
      async before({ NAME }) {
        const token = { name: NAME, digest: digestOf(NAME), role: 'read' } as const
        await adminTokens.insert({ ...token, expiresAt: new Date('9999-01-01') }, changeAt(now()))
      },
      audited: ['token.revoked', 'NAME'],
      isDone: async subject => !(await hasToken(subject)),
    },
  ]
}
