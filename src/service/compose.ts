// Composes the servers from the parts that have been opened.

import { buildAdminApp } from '../admin/api/app.ts'
import { ALL_TOKENS } from '../admin/check-tokens.ts'
import { type Config, tokensAt } from '../config/config.ts'
import { CONSOLE_SESSION_SECONDS } from '../domain/lifetimes.ts'
import { createHashQueue } from '../hashing/hash-queue.ts'
import { buildApp } from '../http/app.ts'
import { expiryOf } from '../http/connection/tls.ts'
import { createOpsServer } from '../http/ops.ts'
import { CONSOLE_SESSION } from '../http/request/cookies.ts'
import type { Log } from '../log/log.ts'
import { createChallenges } from '../login/challenges.ts'
import { createDeviceTokens } from '../login/device.ts'
import { login } from '../login/login.ts'
import { createPace } from '../login/pace.ts'
import type { PasskeyRules } from '../login/passkey.ts'
import { createPasswords } from '../login/passwords.ts'
import { createThrottle } from '../login/throttle.ts'
import { readBeside } from '../metrics/read-beside.ts'
import { createAccessTokenReader } from '../session/access-token.ts'
import { createEndedFeed } from '../session/ended-feed.ts'
import { createReadLimit, createRefreshLimits } from '../session/rate-limit.ts'
import type { Drain } from './drain.ts'
import { observeLogin, observeThrottle } from './observe.ts'
import type { Parts } from './open.ts'
import { createReadiness } from './readiness.ts'

/** Counting reads an index of all factors: a quarter of a second for a million. */
const COUNT_USERS_EVERY_MS = 10 * 60_000

export type Servers = Awaited<ReturnType<typeof composeServers>>

export async function composeServers(
  { config, log }: { config: Config; log: Log },
  parts: Parts,
  purgedAt: () => Date,
  { isStopping, isRefusing, track }: Drain,
) {
  const { metrics, store, clusterClock, writeFaults, tls, adminTls, keys, page } = parts
  const { budgets, bcryptCost, loginTimeMs, cookieIdleSeconds, maxSessionsPerUser } = config
  const { passwordRules, secondFactorRoles, sessionMaxSeconds } = config
  const clock = clusterClock.now
  const hashQueue = createHashQueue(
    parts.hasher,
    { cost: bcryptCost, loginTimeMs },
    undefined,
    metrics.hashStarted,
  )
  const readiness = createReadiness(
    async () => {
      clusterClock.check()
      writeFaults.check()
      await store.maintenance.checkWritable(clock())
    },
    isStopping,
    log,
  )
  const readTokens = () => store.adminTokens.list(ALL_TOKENS)
  metrics.read({
    queueDepth: hashQueue.depth,
    certificateExpiries: () =>
      [tls, adminTls].flatMap(it => it.current() ?? []).map(({ cert }) => expiryOf(cert)),
    signingSince: () => new Date(keys.signingAt(clock()).accessKey.usedFrom * 1000),
    keysHash: keys.hash,
    wasReady: readiness.wasReady,
    clockOffsetMs: clusterClock.offsetMs,
    purgedAt,
    lostLogLines: log.countLost,
    adminTokens: config.adminPort > 0 ? readBeside(readTokens, parts.adminTokens) : null,
    usersWithFactor: readBeside(store.secondFactors.countUsers, Number.NaN, COUNT_USERS_EVERY_MS),
    // A stalled disk must not delay a scrape.
    connections:
      config.database.engine === 'postgres' ? parts.database.maintenance.countConnections : null,
  })
  const tokens = { ...config.tokens }
  const challenges = createChallenges(parts.deviceKey)
  const passkeys: PasskeyRules = {
    rpId: config.passkeyRpId,
    get origin() {
      return new URL(tokens.issuer).origin
    },
    challenges,
  }
  const loginDeps = {
    store,
    throttle: observeThrottle(metrics, createThrottle(store.attempts, clock)),
    passwords: createPasswords(bcryptCost),
    passwordRules,
    secondFactorRoles,
    hashQueue,
    pace: createPace(),
    deviceTokens: createDeviceTokens(parts.deviceKey),
    passkeys,
    keys,
    budgets,
    maxSessionsPerUser,
    sessionMaxSeconds,
    loginTimeMs,
    tokens,
    clock,
  }
  const shared = { config, log, metrics, isStopping, isRefusing, track }
  const sessions = {
    ...{ store, keys, tokens, cookieIdleSeconds, clock, maxSessionsPerUser },
    ...{ sessionMaxSeconds, secondFactorRoles },
    readAccessToken: createAccessTokenReader(keys, tokens),
    refreshLimits: createRefreshLimits(clock),
    limitRead: createReadLimit(clock),
  }
  const forms = {
    ...{ page, passwordRules, passkeys },
    canSetUp: () => config.secondFactor === 'on' && keys.encryptionAt(clock()) !== null,
  }
  const logIn = (deps: typeof loginDeps) => observeLogin(metrics, attempt => login(deps, attempt))

  /** The same logins, in the same queue, with sessions of their own. */
  function composeConsole(roles: NonNullable<Config['console']>) {
    const isListedOrigin = () => false
    const rules = {
      secondFactorRoles: roles.demandingRoles,
      sessionMaxSeconds: CONSOLE_SESSION_SECONDS,
    }
    const { passkeyRpId } = roles
    const passkeys = { rpId: passkeyRpId, origin: config.adminOrigin, challenges }
    const ofConsole = { ...loginDeps, ...rules, passkeys, cookiePrefix: CONSOLE_SESSION.prefix }
    return {
      ...{ ...forms, passkeys, roles },
      page: { ...page, passkeyRpId },
      config: { ...config, returnToOrigins: [], codeCallbacks: [] },
      sessions: { ...sessions, ...rules, isListedOrigin },
      login: logIn(ofConsole),
    }
  }
  return {
    app: buildApp({
      ...shared,
      ...forms,
      tls: tls.current(),
      sessions,
      endedFeed: createEndedFeed(store.sessions, clock),
      login: logIn(loginDeps),
    }),
    admin:
      config.adminPort > 0
        ? buildAdminApp({
            ...shared,
            tls: adminTls.current(),
            ...{ page, store, clock },
            console: config.console && composeConsole(config.console),
          })
        : null,
    ops: createOpsServer({ metrics, checkReady: readiness.check, log }),
    /** Tells the default issuer and audience the port that was bound. */
    usePort(port: number): void {
      Object.assign(tokens, tokensAt(port, config))
    },
  }
}
