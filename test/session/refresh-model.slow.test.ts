// Random histories of refreshes, replays, ends and waits, compared with a model. The model has no keys
// and no purge, so neither may change an outcome.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { decodeJwt } from 'jose'
import type { Store } from '../../src/domain/store.ts'
import type { User } from '../../src/domain/user.ts'
import {
  createGeneration,
  createKeys,
  importKeys,
  type KeyFile,
  type Keys,
  rotate,
} from '../../src/keys/key-set.ts'
import { openSession } from '../../src/login/open-session.ts'
import { refresh } from '../../src/session/refresh.ts'
import { readRefreshToken } from '../../src/session/refresh-token.ts'
import { digestOf } from '../../src/system/identifiers.ts'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { createMigratedDatabase, ENGINES, openPatientStore } from '../support/engines.ts'
import { DAY, GRACE, Model, type ModelCaller, SECOND } from './refresh-model.ts'

const HISTORIES = { sqlite: 2_000, postgres: 150 }
const START = Date.parse('2030-01-01T00:00:00Z')
const TOKENS = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }
const SCOPE = {
  name: 'client',
  key: 'c'.repeat(64),
  emailDigest: null,
  maxFailures: 50,
  maxDailyFailures: null,
} as const
const FIRST_KEYS = { keys: await createGeneration(new Date(START), 0) }
const FIRST_KEYRING = createKeys(await importKeys(FIRST_KEYS))

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
  const [id, moment] = [randomUUID(), new Date(START)]
  const user = {
    ...{ id, email: `${id}@example.com`, passwordHash: 'a hash', name: 'Kate', role: 'user' },
    ...{ isActive: true, failedLoginAttempts: 0, lockedUntil: null, lockedBy: null },
    ...{ temporaryUntil: null, createdAt: moment, updatedAt: moment },
  }
  await store.users.insert(user, changeAt(moment))
  return { store, user, keyFile: FIRST_KEYS, keys: FIRST_KEYRING, tokens: [], sessionIds: [] }
}

const depsOf = ({ now }: Model, { store, keys }: Real) => ({
  store,
  keys,
  tokens: TOKENS,
  cookieIdleSeconds: 1800,
  clock: () => new Date(now),
  limit: { count: () => null, check: () => null },
})

async function loginBoth(model: Model, real: Real): Promise<void> {
  const accepted = {
    user: real.user,
    client: { ip: '127.0.0.1', userAgent: '', isBrowser: false },
    device: null,
    oldCookie: null,
  }
  const limits = { maxSessionsPerUser: 1_000, sessionMaxSeconds: 30 * 24 * 3600 }
  const deps = { ...depsOf(model, real), ...limits }
  const opened = await openSession(deps, accepted, [SCOPE])
  assert.equal(opened !== null, model.login())
  if (!opened) return
  real.tokens.push(opened.refreshToken)
  real.sessionIds.push(opened.id)
}

const REQUEST_IDS = [randomUUID(), randomUUID()]

async function refreshBoth(
  model: Model,
  real: Real,
  index: number,
  caller: ModelCaller,
): Promise<void> {
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
  assert.equal(decodeJwt(refreshToken).exp, model.token(expected.successor).expiresAt / SECOND)
}

async function logoutBoth(model: Model, real: Real, index: number): Promise<void> {
  const { store, keys, tokens } = real
  const [token, now] = [tokens[index] ?? '', new Date(model.now)]
  const read = readRefreshToken(keys, TOKENS.issuer, token, now)
  const found =
    read.kind === 'read' ? await store.refreshTokens.find(read.id, digestOf(token), now) : read
  assert.equal(found.kind === 'found', model.isValid(index))
  if (found.kind === 'found') await endBoth(model, real, model.token(index).session)
}

async function endBoth(model: Model, { store, sessionIds }: Real, index: number): Promise<void> {
  const wasLive = await store.sessions.end(sessionIds[index] ?? '', new Date(model.now))
  assert.equal(wasLive, model.end(index))
}

function command(name: string, run: Command['run'], check: Command['check'] = () => true): Command {
  return { check, run, toString: () => name }
}

const anyIndex = fc.nat(99)
const anyCaller: fc.Arbitrary<ModelCaller> = fc.record({
  id: fc.constantFrom(null, 0, 1),
  // Most repetitions come from the same client.
  client: fc.constantFrom(1, 1, 1, 2),
})
const by = ({ id, client }: ModelCaller) => `id ${id}, client ${client}`
const login = fc.constant(command('login', loginBoth))
const refreshAny = fc
  .tuple(anyIndex, anyCaller)
  .map(([n, caller]) =>
    command(`refresh(${n}, ${by(caller)})`, (model, real) =>
      refreshBoth(model, real, n % model.tokens.length, caller),
    ),
  )
const refreshNewest = fc
  .tuple(anyIndex, anyCaller)
  .map(([n, caller]) =>
    command(`refreshNewest(${n}, ${by(caller)})`, (model, real) =>
      refreshBoth(model, real, model.newestOf(n), caller),
    ),
  )
const logout = anyIndex.map(n =>
  command(`logout(${n})`, (model, real) => logoutBoth(model, real, n % model.tokens.length)),
)
const endOne = anyIndex.map(n =>
  command(`end(${n})`, (model, real) => endBoth(model, real, n % model.sessions.length)),
)
const endOthers = anyIndex.map(n =>
  command(`endOthers(${n})`, async (model, { store, user, sessionIds }) => {
    const kept = n % model.sessions.length
    const keptId = sessionIds[kept] ?? ''
    const ended = await store.sessions.endOthers(user.id, keptId, new Date(model.now))
    assert.equal(ended !== null, model.isLive(kept))
    const others = model.sessions.flatMap((_, i) =>
      ended && i !== kept && model.end(i) ? [i] : [],
    )
    assert.deepEqual(new Set(ended), new Set(others.map(i => sessionIds[i])))
  }),
)
const setActive = fc.boolean().map(isActive =>
  command(`setActive(${isActive})`, async (model, { store, user }) => {
    const change = isActive ? byEmail(store).activate : byEmail(store).deactivate
    await change(user.email, changeAt(new Date(model.now)))
    model.isActive = isActive
    if (!isActive) for (const index of model.sessions.keys()) model.end(index)
  }),
)
const list = fc.constant(
  command('list', async (model, { store, user, sessionIds }) => {
    const page = { afterId: null, limit: 1_000 }
    const sessions = await store.sessions.listLive(user.id, page, new Date(model.now))
    assert.ok(sessions)
    const live = sessionIds.filter((_, i) => model.isLive(i))
    assert.deepEqual(new Set(sessions.map(({ id }) => id)), new Set(live))
  }),
)
const purge = fc.constant(
  command('purge', async (model, { store }) => {
    await store.maintenance.purge(new Date(model.now))
  }),
)
async function rotateReal({ now }: Model, real: Real): Promise<void> {
  real.keyFile = await rotate(real.keyFile, new Date(now), 60)
  real.keys = createKeys(await importKeys(real.keyFile))
}
const rotateKeys = fc.constant(command('rotateKeys', rotateReal))
/** Asks for a successor before and after a new key begins to sign: both must be the same. */
const changeKeys = fc.tuple(anyIndex, anyCaller).map(([n, caller]) =>
  command(`changeKeys(${n}, ${by(caller)})`, async (model, real) => {
    const token = model.newestOf(n)
    await rotateReal(model, real)
    model.now += 55 * SECOND
    await refreshBoth(model, real, token, caller)
    model.now += 8 * SECOND
    await refreshBoth(model, real, token, caller)
  }),
)
const wait = fc
  .oneof(
    { weight: 2, arbitrary: fc.constantFrom(1, 500, SECOND, GRACE - 1, GRACE, GRACE + 1) },
    { weight: 2, arbitrary: fc.nat(12 * SECOND) },
    { weight: 1, arbitrary: fc.constantFrom(61 * SECOND, DAY, 6 * DAY, 7 * DAY, 8 * DAY) },
  )
  .map(ms =>
    command(`wait(${ms})`, async model => {
      model.now += ms
    }),
  )
/** Waits until a grace period, a token or a session ends, or until just before or after. */
const waitUntil = fc
  .tuple(fc.nat(2), anyIndex, fc.constantFrom(-SECOND, -1, 0, 1, SECOND))
  .map(([kind, n, offset]) => {
    const momentIn = (model: Readonly<Model>) => {
      const { rotatedAt, expiresAt, session } = model.token(n % model.tokens.length)
      const sessionEnd = model.sessions[session]?.expiresAt ?? 0
      return [(rotatedAt ?? 0) + GRACE, expiresAt, sessionEnd][kind] ?? 0
    }
    return command(
      `waitUntil(${['the end of the grace period', 'the expiry', 'the end of the session'][kind]} of ${n}, ${offset})`,
      async model => {
        model.now = momentIn(model) + offset
      },
      model => momentIn(model) + offset > model.now,
    )
  })
/** Repeats one token, which must not extend its grace period. */
const seconds = fc.integer({ min: 6, max: 36 })
const repeat = fc.tuple(anyIndex, seconds, anyCaller).map(([n, seconds, caller]) =>
  command(`repeat(${n}, ${seconds}, ${by(caller)})`, async (model, real) => {
    const token = n % model.tokens.length
    for (let time = 0; time < 3; time++) {
      await refreshBoth(model, real, token, caller)
      model.now += seconds * SECOND
    }
  }),
)
/** Refreshes towards the absolute expiry of the session. */
const times = fc.integer({ min: 2, max: 4 })
const keepAlive = fc.tuple(anyIndex, times, anyCaller).map(([n, times, caller]) =>
  command(`keepAlive(${n}, ${times}, ${by(caller)})`, async (model, real) => {
    for (let time = 0; time < times; time++) {
      model.now += 6.9 * DAY
      await refreshBoth(model, real, model.newestOf(n), caller)
    }
  }),
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
  fc.nat(SECOND - 1),
  fc.commands([step], { maxCommands: 14, size: 'max' }),
)

for (const engine of ENGINES) {
  test(`${HISTORIES[engine]} histories on ${engine} have the outcomes of the model`, async () => {
    const database = await createMigratedDatabase(engine)
    const store = await openPatientStore(database.config)
    try {
      const goesAsInTheModel = fc.asyncProperty(histories, async ([startMs, commands]) => {
        const [model, real] = [new Model(START + startMs), await createReal(store)]
        await loginBoth(model, real)
        await fc.asyncModelRun(() => ({ model, real }), commands)
      })
      await fc.assert(goesAsInTheModel, { numRuns: HISTORIES[engine] })
    } finally {
      await store.close()
      await database.drop()
    }
  })
}
