// The admin app: every route, and how its outcome is answered and logged.
import bcrypt from 'bcrypt'
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import { Failure } from '../../admin/failures.ts'
import { DatabaseBusy } from '../../domain/store.ts'
import { isUuid } from '../../identifiers.ts'
import { EMAIL_MAX_LENGTH } from '../../login/credentials.ts'
import { type Details, type FailureCode, sendFailure, statusOf } from '../answer/envelope.ts'
import type { Page } from '../page/page.ts'
import { clientOf } from '../request/client.ts'
import { loggedEmail, logOf } from '../request/log.ts'
import { addReference } from '../routes/reference.ts'
import { createServer, type ServerDeps } from '../server.ts'
import { admitTokens, isChange, TOKEN, tokenOf } from './access.ts'
import type { TokensByDigest } from './current-tokens.ts'
import { ADMIN_API } from './description.ts'
import { createReadRecord, createWorkQueue, queueOperations, TooMuchWork } from './limits.ts'
import type { AdminRoute, RouteDeps } from './route.ts'
import { auditRoute } from './routes/audit.ts'
import {
  devicesRoute,
  endAnySessionRoute,
  endUserSessionsRoute,
  revokeDeviceRoute,
  userSessionsRoute,
} from './routes/sessions.ts'
import { clearThrottleRoute, throttleRoute } from './routes/throttle.ts'
import { lockRoute, passwordRoute, unlockRoute } from './routes/user-changes.ts'
import { userDataRoute } from './routes/user-data.ts'
import {
  addUserRoute,
  changeUserRoute,
  deleteUserRoute,
  userRoute,
  usersRoute,
} from './routes/users.ts'

const USER = '/admin/v1/users/:user'

export const ADMIN_ROUTES: [method: HTTPMethods, url: string, route: AdminRoute][] = [
  ['GET', '/admin/v1/users', usersRoute],
  ['POST', '/admin/v1/users', addUserRoute],
  ['GET', USER, userRoute],
  ['PATCH', USER, changeUserRoute],
  ['DELETE', USER, deleteUserRoute],
  ['GET', `${USER}/data`, userDataRoute],
  ['PUT', `${USER}/password`, passwordRoute],
  ['PUT', `${USER}/lock`, lockRoute],
  ['DELETE', `${USER}/lock`, unlockRoute],
  ['GET', `${USER}/sessions`, userSessionsRoute],
  ['DELETE', `${USER}/sessions`, endUserSessionsRoute],
  ['DELETE', '/admin/v1/sessions/:id', endAnySessionRoute],
  ['GET', `${USER}/devices`, devicesRoute],
  ['DELETE', '/admin/v1/devices/:id', revokeDeviceRoute],
  ['GET', '/admin/v1/throttle', throttleRoute],
  ['DELETE', '/admin/v1/throttle', clearThrottleRoute],
  ['GET', '/admin/v1/audit', auditRoute],
]

/** That of the longest email, each character of which takes nine in an address. */
const PARAM_MAX_LENGTH = EMAIL_MAX_LENGTH * 9
const RETRY_WORK_SECONDS = 5

type AdminAppDeps = ServerDeps & {
  store: RouteDeps['store']
  clock: () => Date
  currentTokens: () => Promise<TokensByDigest>
  page: Page
}

export function buildAdminApp(deps: AdminAppDeps): FastifyInstance {
  const { config, clock, currentTokens, metrics, track } = deps
  const { bcryptCost, budgets } = config
  const oneAtATime = createWorkQueue()
  const shared = {
    ...{ clock, budgets, bcryptCost, oneAtATime },
    store: queueOperations(deps.store),
    recordRead: createReadRecord(),
    hashPassword: (password: string) => oneAtATime(() => bcrypt.hash(password, bcryptCost)),
    passwordRules: { ...config.passwordRules, toOverrule: 'send "allowWeak": true' },
  }
  // Its callers reach this port directly: a header that a proxy would set is forged.
  const direct = { ...deps, config: { ...config, trustedProxies: [] } }
  const { app, refuseOtherMethods } = createServer(direct, {
    maxParamLength: PARAM_MAX_LENGTH,
    isWholeQueryRead: true,
    admit: admitTokens({ currentTokens, clock, onRead: metrics.adminRead }),
  })
  app.decorateRequest(TOKEN, null)
  addReference(app, deps.page, ADMIN_API)

  for (const [method, url, route] of ADMIN_ROUTES) {
    const handler = async (request: FastifyRequest, reply: FastifyReply) => {
      const by = { kind: 'token' as const, name: tokenOf(request).name, host: clientOf(request).ip }
      let outcome: Outcome = { code: 'INTERNAL_ERROR', details: {} }
      try {
        outcome = await track(() => outcomeOf(route, { ...shared, by }, request))
      } finally {
        if (isChange(request) || route.isLogged) logRequest(request, outcome)
      }
      return 'code' in outcome
        ? sendFailure(reply, outcome.code, outcome.details)
        : reply.code(outcome.status).send({ success: true, data: outcome.data })
    }
    app.route({ method, url, ...route.optionsFor(method, url), handler })
  }
  refuseOtherMethods()
  return app
}

type Outcome = { status: number; data: unknown } | { code: FailureCode; details: Details }

async function outcomeOf(
  { status, handle }: AdminRoute,
  deps: RouteDeps,
  request: FastifyRequest,
): Promise<Outcome> {
  try {
    return { status, data: (await handle(deps, request)) ?? {} }
  } catch (error) {
    const code = error instanceof Failure && CODE_OF[error.code]
    if (code) {
      const { message, field } = error
      return { code, details: { message, ...(field && { fields: [field] }) } }
    }
    if (error instanceof TooMuchWork || error instanceof DatabaseBusy) {
      return { code: 'SERVICE_UNAVAILABLE', details: { retryAfterSeconds: RETRY_WORK_SECONDS } }
    }
    throw error
  }
}

/** Other failures are those of commands. */
const CODE_OF: Partial<Record<Failure['code'], FailureCode>> = {
  'not-found': 'NOT_FOUND',
  'email-taken': 'EMAIL_TAKEN',
  'weak-password': 'INVALID_REQUEST',
  'wrong-use': 'INVALID_REQUEST',
}

/** The id or email of a user; undefined if it is no string. */
function loggedUser(typed: unknown): string | undefined {
  if (typeof typed !== 'string') return undefined
  return isUuid(typed) ? typed : loggedEmail(typed)
}

/** Written when the request is performed, whether or not its caller is still connected. */
function logRequest(request: FastifyRequest, outcome: Outcome): void {
  const { method, routeOptions, params, query, body } = request
  const { user, id, email, client } = { ...Object(query), ...Object(params) }
  // No other field of the body: one that is misspelt may hold a password.
  const target =
    loggedUser(user) ?? id ?? loggedUser(email) ?? client ?? loggedUser(Object(body).email)
  logOf(request).info({
    event: 'admin.request',
    tokenName: tokenOf(request).name,
    method,
    route: routeOptions.url,
    ...('code' in outcome
      ? { status: statusOf(outcome.code), code: outcome.code }
      : { status: outcome.status }),
    ...(typeof target === 'string' && { target }),
  })
}
