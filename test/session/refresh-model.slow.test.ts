// Random histories of refreshes, replays, ends and waits, compared with a model. The model has no keys
// and no purge, so neither may change an outcome.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
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
import { byEmail, changeAt, insertTestUser, makeScopes } from '../storage/fixtures.ts'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { casesOf } from '../support/proof.ts'
import { DAY, GRACE, Model, type ModelCaller, SECOND } from './refresh-model.ts'

const HISTORIES = { sqlite: 2_000, postgres: 150 }
const START = Date.parse('2030-01-01T00:00:00Z')
const TOKENS = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }
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
  const opened = await openSession(deps, accepted, makeScopes())
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
  const [token, now] = [tokens[index] ?? '', at(model)]
  const read = readRefreshToken(keys, TOKENS.issuer, token, now)
  const found =
    read.kind === 'read' ? await store.refreshTokens.find(read.id, digestOf(token), now) : read
  assert.equal(found.kind === 'found', model.isValid(index))
  if (found.kind === 'found') await endBoth(model, real, model.token(index).session)
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
    model.now += seconds * SECOND
    await refreshBoth(model, real, token, caller)
  }
})
const anyWait = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom(1, 500, SECOND, GRACE - 1, GRACE, GRACE + 1) },
  { weight: 2, arbitrary: fc.nat(12 * SECOND) },
  { weight: 1, arbitrary: fc.constantFrom(61 * SECOND, DAY, 6 * DAY, 7 * DAY, 8 * DAY) },
)
const wait = command('wait', [anyWait], async (model, _, ms) => {
  model.now += ms
})
const ENDS = ['the end of the grace period', 'the expiry', 'the end of the session'] as const
const anyOffset = fc.constantFrom(-SECOND, -1, 0, 1, SECOND)
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
      model.now += seconds * SECOND
    }
  },
)
/** Refreshes towards the absolute expiry of the session. */
const keepAlive = command(
  'keepAlive',
  [anyIndex, fc.integer({ min: 2, max: 4 }), anyCaller],
  async (model, real, n, times, caller) => {
    for (let time = 0; time < times; time++) {
      model.now += 6.9 * DAY
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
  fc.nat(SECOND - 1),
  fc.commands([step], { maxCommands: 14, size: 'max' }),
)

for (const engine of ENGINES) {
  const numRuns = casesOf(HISTORIES[engine])
  describe(`refreshes on ${engine}`, async () => {
    const { store } = await openTestStore(engine)

    test(`${numRuns} histories have the outcomes of the model`, async () => {
      const goesAsInTheModel = fc.asyncProperty(histories, async ([startMs, commands]) => {
        const [model, real] = [new Model(START + startMs), await createReal(store)]
        await loginBoth(model, real)
        await fc.asyncModelRun(() => ({ model, real }), commands)
      })
      await fc.assert(goesAsInTheModel, { numRuns })
    })
  })
}
