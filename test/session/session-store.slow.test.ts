// Sessions in a store: random histories of refreshes, replays, ends and waits, compared with a model, and very many
// sessions of one user. The model has no keys and no purge, so neither may change an outcome.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { decodeJwt } from 'jose'
import type { Store } from '../../src/domain/store.ts'
import type { User } from '../../src/domain/user.ts'
import { createKeys, importKeys, type KeyFile, type Keys } from '../../src/keys/key-set.ts'
import { createFirstKeys, rotate } from '../../src/keys/rotation.ts'
import { openSession } from '../../src/login/open-session.ts'
import { refresh } from '../../src/session/refresh.ts'
import { readRefreshToken } from '../../src/session/refresh-token.ts'
import { byEmail, changeAt, insertTestUser, makeScopes } from '../storage/fixtures.ts'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { casesOf } from '../support/proof.ts'
import { DAY_MS, SECOND_MS } from '../support/session-client.ts'

const HISTORIES = { sqlite: 2_000, postgres: 150 }
const START = Date.parse('2030-01-01T00:00:00Z')
const TOKENS = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }
const FIRST_KEYS = await createFirstKeys(new Date(START))
const FIRST_KEYRING = createKeys(await importKeys(FIRST_KEYS))

/** How long a replaced token gets the same successor. */
const GRACE = 60 * SECOND_MS

/** Request ids and clients are numbers. */
type ModelCaller = { id: number | null; client: number }

type ModelToken = {
  /** Sessions and tokens are numbered in the order of their creation. */
  session: number
  expiresAt: number
  /** Null while the token is unused. */
  rotatedAt: number | null
  successor: number | null
  /** The caller that got the token; null for the token of a login. */
  issuedTo: ModelCaller | null
}
type ModelSession = { expiresAt: number; isEnded: boolean }

type Expected = { kind: 'invalid' | 'reused' } | { kind: 'refreshed'; successor: number }

/** Refreshing without keys, digests, rows or transactions. Times are milliseconds. */
class Model {
  now: number
  isActive = true
  readonly sessions: ModelSession[] = []
  readonly tokens: ModelToken[] = []

  constructor(now: number) {
    this.now = now
  }

  login(): boolean {
    if (!this.isActive) return false
    this.sessions.push({ expiresAt: this.now + 30 * DAY_MS, isEnded: false })
    this.#issue(this.sessions.length - 1, null)
    return true
  }

  refresh(index: number, caller: ModelCaller): Expected {
    const token = this.token(index)
    if (!this.isValid(index)) return { kind: 'invalid' }
    if (token.rotatedAt === null || token.successor === null) {
      token.rotatedAt = this.now
      token.successor = this.#issue(token.session, caller)
      return { kind: 'refreshed', successor: token.successor }
    }
    const isInGrace = this.now <= token.rotatedAt + GRACE
    const { rotatedAt, issuedTo } = this.token(token.successor)
    const isIdNew = caller.id !== null && caller.id !== token.issuedTo?.id
    const isSame = caller.client === issuedTo?.client || (isIdNew && caller.id === issuedTo?.id)
    if (isInGrace && rotatedAt === null && isSame) {
      return { kind: 'refreshed', successor: token.successor }
    }
    this.end(token.session)
    return { kind: 'reused' }
  }

  /** Whether a token, used or not, has not expired and its session is live. */
  isValid(index: number): boolean {
    const { session, expiresAt } = this.token(index)
    return this.now < expiresAt && this.isLive(session)
  }

  isLive(session: number): boolean {
    const { isEnded, expiresAt } = this.#session(session)
    const isIdle = this.token(this.newestOf(session)).expiresAt <= this.now
    return !isEnded && !isIdle && this.now < expiresAt
  }

  /** Returns false if the session was not live. */
  end(session: number): boolean {
    const wasLive = this.isLive(session)
    this.#session(session).isEnded = true
    return wasLive
  }

  newestOf(session: number): number {
    return this.tokens.findLastIndex(token => token.session === session % this.sessions.length)
  }

  token(index: number): ModelToken {
    return itemAt(this.tokens, index)
  }

  #session(index: number): ModelSession {
    return itemAt(this.sessions, index)
  }

  #issue(session: number, issuedTo: ModelCaller | null): number {
    // The times of a token are whole seconds.
    const issuedAt = this.now - (this.now % SECOND_MS)
    const { expiresAt: sessionEnd } = this.#session(session)
    const expiresAt = Math.min(issuedAt + 7 * DAY_MS, sessionEnd - (sessionEnd % SECOND_MS))
    const token = { session, expiresAt, rotatedAt: null, successor: null, issuedTo }
    return this.tokens.push(token) - 1
  }
}

function itemAt<T>(list: T[], index: number): T {
  const item = list[index]
  if (item === undefined) throw new Error(`there is no number ${index}`)
  return item
}

/** The real side of a history: its own user, and its tokens and sessions in the order of the model. */
type Real = {
  store: Store
  user: User
  keyFile: KeyFile
  keys: Keys
  tokens: string[]
  sessionIds: string[]
}
type Command = fc.AsyncCommand<Model, Real>

async function createReal(store: Store): Promise<Real> {
  const email = `${randomUUID()}@example.com`
  await insertTestUser(store, email, new Date(START))
  const user = await store.users.findByEmail(email)
  assert.ok(user)
  return { store, user, keyFile: FIRST_KEYS, keys: FIRST_KEYRING, tokens: [], sessionIds: [] }
}

const at = ({ now }: Model) => new Date(now)

async function rotateReal(model: Model, real: Real): Promise<void> {
  real.keyFile = await rotate(real.keyFile, at(model), 60)
  real.keys = createKeys(await importKeys(real.keyFile))
}

const depsOf = (model: Model, { store, keys }: Real) => ({
  store,
  keys,
  tokens: TOKENS,
  clock: () => at(model),
  refreshLimits: UNLIMITED,
  secondFactorRoles: [],
})

async function loginBoth(model: Model, real: Real): Promise<void> {
  const accepted = {
    user: real.user,
    client: { ip: '127.0.0.1', userAgent: '', isBrowser: false },
    amr: ['pwd'],
    device: null,
    oldCookie: null,
  }
  const limits = { maxSessionsPerUser: 1_000, sessionMaxSeconds: 30 * 24 * 3600 }
  const deps = { ...depsOf(model, real), ...limits }
  const opened = await openSession(deps, accepted, makeScopes())
  assert.equal(opened !== null, model.login())
  if (!opened) return
  real.tokens.push(opened.refreshToken)
  real.sessionIds.push(opened.id)
}

const REQUEST_IDS = [randomUUID(), randomUUID()]

async function refreshBoth(model: Model, real: Real, index: number, caller: ModelCaller) {
  const outcome = await refresh(depsOf(model, real), real.tokens[index] ?? '', {
    requestId: (caller.id !== null && REQUEST_IDS[caller.id]) || null,
    group: `192.0.2.${caller.client}`,
    userAgent: '',
  })
  const expected = model.refresh(index, caller)
  assert.equal(outcome.kind, expected.kind)
  if (outcome.kind === 'reused') {
    assert.equal(outcome.sessionId, real.sessionIds[model.token(index).session])
  }
  if (outcome.kind !== 'refreshed' || expected.kind !== 'refreshed') return
  const { refreshToken, live } = outcome
  if (expected.successor === real.tokens.length) {
    assert.ok(!real.tokens.includes(refreshToken), 'a token was issued twice')
    real.tokens.push(refreshToken)
  }
  assert.equal(refreshToken, real.tokens[expected.successor])
  assert.equal(live.session.id, real.sessionIds[model.token(index).session])
  assert.equal(decodeJwt(refreshToken).exp, model.token(expected.successor).expiresAt / SECOND_MS)
}

const UNLIMITED = { begin: () => null, succeed() {}, count: () => null }

const sessionOf = ({ sessionId, userId }: { sessionId: string; userId: string }) =>
  ({ kind: 'token', sessionId, userId }) as const

async function logoutBoth(model: Model, real: Real, index: number): Promise<void> {
  const { store, keys, tokens } = real
  const [token, now] = [tokens[index] ?? '', at(model)]
  const read = readRefreshToken(keys, TOKENS.issuer, token, now)
  const isEnded =
    read.kind === 'read' && (await store.sessions.endOf(sessionOf(read), now)) !== null
  assert.equal(isEnded, model.isValid(index))
  if (isEnded) model.end(model.token(index).session)
}

async function endBoth(model: Model, { store, sessionIds }: Real, index: number): Promise<void> {
  const wasLive = await store.sessions.end(sessionIds[index] ?? '', at(model))
  assert.equal(wasLive, model.end(index))
}

/** A command with chosen values, which its name shows if a history fails. */
function command<Values extends unknown[]>(
  name: string,
  values: { [Index in keyof Values]: fc.Arbitrary<Values[Index]> },
  run: (model: Model, real: Real, ...values: Values) => Promise<unknown>,
  check: (model: Readonly<Model>, ...values: Values) => boolean = () => true,
): fc.Arbitrary<Command> {
  return fc.tuple<Values>(...values).map(chosen => ({
    check: model => check(model, ...chosen),
    run: async (model, real) => void (await run(model, real, ...chosen)),
    toString: () => `${name}${JSON.stringify(chosen)}`,
  }))
}

const anyIndex = fc.nat(99)
const anyCaller: fc.Arbitrary<ModelCaller> = fc.record({
  id: fc.constantFrom(null, 0, 1),
  // Most repetitions come from the same client.
  client: fc.constantFrom(1, 1, 1, 2),
})
const login = command('login', [], loginBoth)
const refreshAny = command('refresh', [anyIndex, anyCaller], (model, real, n, caller) =>
  refreshBoth(model, real, n % model.tokens.length, caller),
)
const refreshNewest = command('refreshNewest', [anyIndex, anyCaller], (model, real, n, caller) =>
  refreshBoth(model, real, model.newestOf(n), caller),
)
const logout = command('logout', [anyIndex], (model, real, n) =>
  logoutBoth(model, real, n % model.tokens.length),
)
const endOne = command('end', [anyIndex], (model, real, n) =>
  endBoth(model, real, n % model.sessions.length),
)
const endOthers = command('endOthers', [anyIndex], async (model, real, n) => {
  const { store, user, sessionIds } = real
  const kept = n % model.sessions.length
  const ended = await store.sessions.endOthers(user.id, sessionIds[kept] ?? '', at(model))
  assert.equal(ended !== null, model.isLive(kept))
  const others = sessionIds.filter((_, i) => ended && i !== kept && model.end(i))
  assert.deepEqual(new Set(ended), new Set(others))
})
const setActive = command('setActive', [fc.boolean()], async (model, { store, user }, isActive) => {
  const { activate, deactivate } = byEmail(store)
  await (isActive ? activate : deactivate)(user.email, changeAt(at(model)))
  model.isActive = isActive
  if (!isActive) for (const index of model.sessions.keys()) model.end(index)
})
const list = command('list', [], async (model, { store, user, sessionIds }) => {
  const page = { afterId: null, limit: 1_000 }
  const sessions = await store.sessions.listLive(user.id, page, at(model))
  assert.ok(sessions)
  const live = sessionIds.filter((_, i) => model.isLive(i))
  assert.deepEqual(new Set(sessions.map(({ id }) => id)), new Set(live))
})
const purge = command('purge', [], (model, { store }) => store.maintenance.purge(at(model)))
const rotateKeys = command('rotateKeys', [], rotateReal)
/** Asks for a successor before and after a new key begins to sign: both must be the same. */
const changeKeys = command('changeKeys', [anyIndex, anyCaller], async (model, real, n, caller) => {
  const token = model.newestOf(n)
  await rotateReal(model, real)
  for (const seconds of [55, 8]) {
    model.now += seconds * SECOND_MS
    await refreshBoth(model, real, token, caller)
  }
})
const anyWait = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom(1, 500, SECOND_MS, GRACE - 1, GRACE, GRACE + 1) },
  { weight: 2, arbitrary: fc.nat(12 * SECOND_MS) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(61 * SECOND_MS, DAY_MS, 6 * DAY_MS, 7 * DAY_MS, 8 * DAY_MS),
  },
)
const wait = command('wait', [anyWait], async (model, _, ms) => {
  model.now += ms
})
const ENDS = ['the end of the grace period', 'the expiry', 'the end of the session'] as const
const anyOffset = fc.constantFrom(-SECOND_MS, -1, 0, 1, SECOND_MS)
const momentOf = (model: Readonly<Model>, end: (typeof ENDS)[number], n: number): number => {
  const { rotatedAt, expiresAt, session } = model.token(n % model.tokens.length)
  if (end === 'the expiry') return expiresAt
  return end === 'the end of the session'
    ? (model.sessions[session]?.expiresAt ?? 0)
    : (rotatedAt ?? 0) + GRACE
}
/** Waits until a grace period, a token or a session ends, or until just before or after. */
const waitUntil = command(
  'waitUntil',
  [fc.constantFrom(...ENDS), anyIndex, anyOffset],
  async (model, _, end, n, offset) => {
    model.now = momentOf(model, end, n) + offset
  },
  (model, end, n, offset) => momentOf(model, end, n) + offset > model.now,
)
const anySeconds = fc.integer({ min: 6, max: 36 })
/** Repeats one token, which must not extend its grace period. */
const repeat = command(
  'repeat',
  [anyIndex, anySeconds, anyCaller],
  async (model, real, n, seconds, caller) => {
    const token = n % model.tokens.length
    for (let time = 0; time < 3; time++) {
      await refreshBoth(model, real, token, caller)
      model.now += seconds * SECOND_MS
    }
  },
)
/** Refreshes towards the absolute expiry of the session. */
const keepAlive = command(
  'keepAlive',
  [anyIndex, fc.integer({ min: 2, max: 4 }), anyCaller],
  async (model, real, n, times, caller) => {
    for (let time = 0; time < times; time++) {
      model.now += 6.9 * DAY_MS
      await refreshBoth(model, real, model.newestOf(n), caller)
    }
  },
)

const step = fc.oneof(
  { weight: 8, arbitrary: refreshAny },
  { weight: 4, arbitrary: refreshNewest },
  { weight: 4, arbitrary: wait },
  { weight: 5, arbitrary: waitUntil },
  { weight: 2, arbitrary: login },
  { weight: 2, arbitrary: fc.oneof(logout, endOne, endOthers, setActive) },
  { weight: 2, arbitrary: fc.oneof(list, purge, rotateKeys, changeKeys) },
  { weight: 2, arbitrary: fc.oneof(repeat, keepAlive) },
)
const histories = fc.tuple(
  fc.nat(SECOND_MS - 1),
  fc.commands([step], { maxCommands: 14, size: 'max' }),
)

for (const engine of ENGINES) {
  const numRuns = casesOf(HISTORIES[engine])
  describe(`sessions in a store on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)

    test(`${numRuns} histories have the outcomes of the model`, async () => {
      const goesAsInTheModel = fc.asyncProperty(histories, async ([startMs, commands]) => {
        const [model, real] = [new Model(START + startMs), await createReal(store)]
        await loginBoth(model, real)
        await fc.asyncModelRun(() => ({ model, real }), commands)
      })
      await fc.assert(goesAsInTheModel, { numRuns })
    })

    test('a user with more sessions than a statement may have parameters can be deactivated and deleted', async () => {
      const [email, start] = ['many@example.com', new Date(START)]
      const id = await insertTestUser(store, email, start)
      await fillSessions(database, id, 1_000, start)
      await fillSessions(database, id, 33_000, start, { endedAt: start })
      assert.ok(await byEmail(store).deactivate(email, changeAt(start)))
      assert.deepEqual(await store.sessions.listLive(id, { afterId: null, limit: 9 }, start), [])
      assert.equal(await byEmail(store).delete(email, changeAt()), 0)
    })
  })
}
