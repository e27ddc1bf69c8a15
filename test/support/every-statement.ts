// Calls every operation of the store such that each of its statements runs.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { Opening } from '../../src/domain/attempt.ts'
import { addRemoved, NONE_REMOVED } from '../../src/domain/maintenance.ts'
import { type FactorsChange, NO_FACTORS } from '../../src/domain/second-factor.ts'
import type { Store } from '../../src/domain/store.ts'
import { SECOND_FACTOR_FILTERS, USER_STATES } from '../../src/domain/user.ts'
import { limitsOf } from '../../src/login/scopes.ts'
import {
  byEmail,
  changeAt,
  digest,
  insertTestUser,
  makeFactor,
  makeScopes,
  makeSuccessor,
  NO_PROOFS,
  purgeAll,
} from '../storage/fixtures.ts'
import type { TestDatabase } from './engines.ts'
import { fillSessions } from './many-sessions.ts'

const DAY_MS = 24 * 3_600_000

export async function useEverything(store: Store, database: TestDatabase): Promise<void> {
  const now = new Date()
  const later = (ms: number) => new Date(now.getTime() + ms)
  const email = `${randomUUID()}@example.com`
  const userId = await insertTestUser(store, email, now)
  const token = () => makeSuccessor(now, later(7 * DAY_MS))
  const deviceDigest = digest(randomUUID())
  const deviceId = randomUUID()
  let factorsVersion = 0
  const openingOf = (
    isFirst: boolean,
    maxSessions: number,
    more: Pick<Opening, 'proof' | 'change'> = {},
  ) => {
    const [id, refreshToken, cookieDigest] = [randomUUID(), token(), digest(randomUUID())]
    return {
      user: { id: userId, passwordHash: 'a hash', factorsVersion },
      session: {
        ...{ id, expiresAt: later(30 * DAY_MS), cookieDigest, userAgent: '', ip: '' },
        amr: ['pwd'],
      },
      refreshToken,
      device: isFirst
        ? { kind: 'new', id: deviceId, digest: deviceDigest, expiresAt: later(DAY_MS) }
        : { kind: 'known', id: deviceId, expiresAt: later(DAY_MS) },
      displaced: { cookieDigest: digest(randomUUID()), usedBefore: later(-1), maxSessions },
      ...more,
    } satisfies Opening
  }
  const succeed = async (opening: Opening) => {
    const scopes = makeScopes()
    await store.attempts.reserve(scopes, email, now)
    return (await store.attempts.succeed(opening, scopes, now)) !== null
  }
  const open = async (...parameters: Parameters<typeof openingOf>) => {
    const opening = openingOf(...parameters)
    assert.ok(await succeed(opening))
    const { session, refreshToken } = opening
    return { ...session, refreshToken }
  }
  const changing = (newHash: string | null, factors: FactorsChange | null) => ({
    change: { newHash, factors, keptDeviceId: deviceId },
  })

  const scopes = makeScopes(email, 'client', { pair: 1, email: 1, client: 1 })
  await store.attempts.reserve(scopes, email, now)
  await store.attempts.fail(scopes, userId, now)
  assert.equal((await store.attempts.reserve(scopes, email, now)).kind, 'blocked')
  await byEmail(store).unlock(email, changeAt(now))
  const unknown = makeScopes()
  await store.attempts.reserve(unknown, 'unknown', now)
  await store.attempts.fail(unknown, null, now)
  await store.attempts.release(unknown)
  await store.attempts.pass(unknown)
  await store.attempts.pass(scopes, { userId, at: now, ip: '::1', userAgent: 'a browser' })

  await open(true, 100)
  await fillSessions(database, userId, 60, now)
  await open(false, 10)
  await open(false, 100, changing('a hash', null))
  await useSecondFactors()
  const { id, refreshToken, cookieDigest } = await open(false, 100)
  await store.users.findById(userId)
  await store.devices.readKey()
  await store.maintenance.countConnections()
  await store.devices.find(deviceDigest, now)
  await store.devices.list(userId, now)
  await store.sessions.findLive(id, now)
  await store.sessions.findLiveByCookie(cookieDigest, now)
  await store.sessions.touchCookie(id, later(DAY_MS), now, now)
  const used = await store.refreshTokens.use(refreshToken.id, refreshToken.digest, token(), now)
  assert.equal(used.kind, 'replaced')
  const found = await store.refreshTokens.find(refreshToken.id, refreshToken.digest, now)
  assert.ok(found.kind === 'found' && found.successor)
  const [first] = await store.sessions.listTokens(userId, null, 1)
  assert.ok(first)
  await store.sessions.listTokens(userId, first, 100)
  const callback = 'https://app.example.net/'
  const code = { callback, challenge: 'x'.repeat(43), expiresAt: later(1) }
  const codeDigest = digest(randomUUID())
  await store.codes.insert(codeDigest, id, code)
  assert.equal((await store.codes.find(codeDigest, now)).kind, 'found')
  const session = { id: randomUUID(), expiresAt: later(DAY_MS), userAgent: '', ip: '' }
  const redemption = { userId, session, refreshToken: token(), maxSessions: 100 }
  assert.deepEqual(await store.codes.redeem(codeDigest, redemption, now), [])
  await store.sessions.listLive(userId, { afterId: null, limit: 101 }, now)
  await store.sessions.listLive(userId, { afterId: id, limit: 101 }, now)
  await store.sessions.listLive(
    userId,
    { afterId: null, limit: 21, isLastFirst: true, othersOf: id },
    now,
  )
  await store.sessions.listLive(userId, { afterId: id, limit: 11, isLastFirst: true }, now)
  await store.sessions.listLive(
    userId,
    { afterId: id, limit: 21, isLastFirst: true, othersOf: id },
    now,
  )
  assert.ok((await store.sessions.countLive(userId, now)) > 1)
  assert.ok(await store.sessions.endOthers(userId, id, now))
  assert.equal(await store.sessions.end(id, now), true)
  for (const key of [
    { kind: 'token', sessionId: id, userId },
    { kind: 'cookie', digest: cookieDigest, usedAfter: later(-DAY_MS) },
  ] as const) {
    assert.equal(await store.sessions.endOf(key, now), null)
  }

  const person = { kind: 'person', name: email, host: '::1', id: userId } as const
  for (const isSeen of [false, true]) {
    const another = await open(false, 100)
    const user = await store.users.findById(userId)
    const seen = isSeen && user ? { seen: user } : {}
    const change = { ...changeAt(now), by: person, ...seen }
    assert.equal(await store.sessions.endByAdministrator(another.id, change), true)
  }
  assert.equal(await byEmail(store).endSessions(email, changeAt(now)), 0)
  await store.users.findByEmail(email)
  await store.users.upgradePasswordHash(userId, 'a hash', 'another', now)
  for (const role of [undefined, 'user']) {
    for (const search of [undefined, 'example']) {
      for (const state of [undefined, ...USER_STATES]) {
        const dormantSince = role && new Date(0)
        const filter = {
          ...(role && { role }),
          ...(search && { search }),
          ...(state && { state }),
          ...(dormantSince && { dormantSince }),
        }
        const { next } = await store.users.list(filter, { after: '', limit: 10 }, now)
        await store.users.list(filter, { after: next ?? '', limit: 10 }, now)
      }
    }
  }
  for (const secondFactor of SECOND_FACTOR_FILTERS) {
    await store.users.list({ secondFactor }, { after: '', limit: 10 }, now)
  }
  await store.secondFactors.listRecoveryCodes(userId)
  const limits = limitsOf({ pair: 5, email: 20, client: 50, network: 500 })
  assert.equal((await store.throttle.read(scopes, now)).length, 3)
  assert.equal((await store.throttle.readOfEmail(digest(email), limits, now)).length, 2)
  assert.ok((await store.throttle.listClients(limits, now)).length > 0)
  await store.users.listEmails('')
  const keys = scopes.map(({ key }) => key)
  await store.throttle.clear(keys, '203.0.113.7', changeAt(now))
  await store.attempts.reserve(scopes, email, now)
  await store.attempts.fail(scopes, userId, now)
  assert.equal(await store.throttle.clearOfEmail(email, changeAt(now)), true)
  assert.ok(await store.sessions.findLastLogin(userId))
  const [stored] = await store.sessions.listStored(userId, { afterId: null, limit: 2 })
  assert.ok(stored)
  await store.sessions.listStored(userId, { afterId: stored.id, limit: 2 })
  const own = await store.audit.listOfUser({ id: userId, email }, { beforeId: null, limit: 2 })
  assert.equal(own.length, 2)
  const device = makeScopes(email).slice(0, 1)
  await store.attempts.reserve(device, email, now)
  await database.rows(`update login_throttle set scope = 'device' where key = '${device[0]?.key}'`)
  const renamed = `${randomUUID()}@example.com`
  for (const [from, to] of [
    [email, renamed],
    [renamed, email],
  ] as const) {
    const set = await byEmail(store).set(from, { email: to }, changeAt(now))
    assert.ok(typeof set === 'object' && set.isChanged)
  }
  await byEmail(store).setPassword(email, 'a hash', changeAt(now))
  await byEmail(store).lock(email, later(DAY_MS), changeAt(now))
  await byEmail(store).deactivate(email, changeAt(now))
  await byEmail(store).activate(email, changeAt(now))
  await fillSessions(database, userId, 10, now)
  assert.equal(await byEmail(store).delete(email, changeAt()), 10)
  assert.ok(await store.sessions.hasMoreEnded(9, now, later(1)))
  const [end] = await store.sessions.listEnded({ endedAt: now }, 1)
  assert.ok(end && (await store.sessions.listEnded(end, 10_000)).length > 10)

  const imported = { id: userId, isIdGiven: true, email, passwordHash: 'a', name: 'Name' }
  const unsaid = { role: null, isActive: null, createdAt: null, lockedUntil: null }
  const options = { mayUpdate: true, isDryRun: false }
  for (const [passwordHash, outcome] of Object.entries({ a: 'added', b: 'updated' })) {
    const user = { ...imported, ...unsaid, passwordHash }
    assert.deepEqual(await store.imports.run([user], options, changeAt()), [outcome])
  }

  await fillSessions(database, userId, 3, now, { tokensEach: 0 })
  assert.ok((await store.sessions.endEvery(changeAt(now))) >= 3)
  const event = { action: 'user.exported', target: 'audit', targetId: null } as const
  await store.audit.record(changeAt(now), [event])
  for (const _ of [1, 2]) await store.audit.recordDaily(changeAt(now), event)

  const page = { since: null, beforeId: null, limit: 1 }
  const { events, next } = await store.audit.list(email, page)
  assert.equal(events.length, 1)
  for (const target of [email, null]) {
    for (const since of [null, new Date(0)]) {
      const more = await store.audit.list(target, { since, beforeId: next, limit: 1 })
      assert.equal(more.events.length, 1)
    }
  }

  const adminToken = { name: randomUUID(), digest: digest(randomUUID()), role: 'read' } as const
  assert.ok(await store.adminTokens.insert({ ...adminToken, expiresAt: now }, changeAt(now)))
  assert.ok(await store.adminTokens.find(adminToken.digest))
  assert.ok((await store.adminTokens.list({ after: '', limit: 10 })).length > 0)
  await store.adminTokens.touch(adminToken.name, now)
  assert.ok(await store.adminTokens.revoke(adminToken.name, changeAt(now)))

  const removed = { ...NONE_REMOVED }
  for (const purged of await purgeAll(store, later(8 * DAY_MS), 1)) addRemoved(removed, purged)
  for (const [name, rows] of Object.entries(removed)) assert.ok(rows > 0, name)
  await store.maintenance.checkWritable(now)
  await store.maintenance.readClock()
  await store.maintenance.readConnectionLimit()

  async function useSecondFactors(): Promise<void> {
    const id = randomUUID()
    const [recoveryCode = '', ...others] = Array.from({ length: 10 }, () => digest(randomUUID()))
    const change = async (factors: FactorsChange) => {
      await open(false, 100, changing(null, factors))
      factorsVersion++
    }
    const set = { kind: 'set', factor: makeFactor(now, id) } as const
    await change({ ...set, recoveryDigests: [recoveryCode, ...others] })
    const { totp } = await store.secondFactors.findProofs(userId, NO_PROOFS)
    assert.equal(totp?.id, id)
    const code = { kind: 'totp', id, usedTo: later(30_000), secret: 'key.secret' } as const
    for (const used of [code, { kind: 'recovery-code', digest: recoveryCode } as const]) {
      const proved = () => openingOf(false, 100, { proof: { used, guessesBelow: 10 } })
      assert.equal(await succeed(proved()), true)
      assert.equal(await succeed(proved()), false)
    }
    const failing = makeScopes()
    await store.attempts.reserve(failing, email, now)
    const guess = { guessesBelow: 10, codeOffsetSeconds: 60 }
    assert.equal((await store.attempts.fail(failing, userId, now, guess)).guesses, 1)
    assert.equal((await store.secondFactors.list(userId)).recoveryCodesLeft, 9)
    await change({ kind: 'new-recovery-codes', recoveryDigests: others })
    const passkey = { kind: 'passkey', credentialId: 'c', rpId: 'example.com', name: 'A' } as const
    const added = { ...makeFactor(now), ...passkey }
    await change({ kind: 'set', factor: added, recoveryDigests: null })
    const typed = { ...NO_PROOFS, ...passkey }
    assert.equal((await store.secondFactors.findProofs(userId, typed)).passkey?.id, added.id)
    await change({ kind: 'remove', id: added.id, isLast: false })
    await change({ kind: 'remove', id, isLast: true })
    for (const password of [null, { hash: 'a hash', temporaryUntil: now }]) {
      await change({ ...set, recoveryDigests: others })
      assert.ok(await store.secondFactors.reset(userId, password, changeAt(now)))
      factorsVersion++
    }
    assert.deepEqual(await store.secondFactors.list(userId), NO_FACTORS)
    await open(true, 100, changing('a hash', null))
  }
}
