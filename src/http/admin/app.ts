// The admin app: every route, and how its outcome is answered and logged.
import bcrypt from 'bcrypt'
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import { Refusal } from '../../admin/failures.ts'
import { type Details, type FailureCode, sendFailure, statusOf } from '../answer/envelope.ts'
import { clientOf } from '../request/client.ts'
import { logOf } from '../request/log.ts'
import { createServer, type ServerDeps } from '../server.ts'
import { admit, isChange, TOKEN, tokenOf } from './access.ts'
import { followTokens } from './current-tokens.ts'
import { bodyOf, InvalidInput, queryOf } from './input.ts'
import { createWorkQueue, queueOperations, TooMuchWork } from './limits.ts'
import type { Handler, RouteDeps } from './route.ts'
import { auditRoute } from './routes/audit.ts'
import { devicesRoute, revokeDeviceRoute } from './routes/devices.ts'
import { endSessionRoute, endSessionsRoute, sessionsRoute } from './routes/sessions.ts'
import { clearThrottleRoute, throttleRoute } from './routes/throttle.ts'
import { lockRoute, passwordRoute, unlockRoute } from './routes/user-changes.ts'
import {
  addUserRoute,
  changeUserRoute,
  deleteUserRoute,
  userRoute,
  usersRoute,
} from './routes/users.ts'

const USER = '/admin/v1/users/:user'

type Route = [method: HTTPMethods, url: string, handle: Handler, query?: readonly string[]]

/** `query` names what a request may have in its query; by default nothing. */
export const ADMIN_ROUTES: Route[] = [
  ['GET', '/admin/v1/users', usersRoute, ['search', 'role', 'state', 'limit', 'after']],
  ['POST', '/admin/v1/users', addUserRoute],
  ['GET', USER, userRoute, ['client']],
  ['PATCH', USER, changeUserRoute],
  ['DELETE', USER, deleteUserRoute],
  ['PUT', `${USER}/password`, passwordRoute],
  ['PUT', `${USER}/lock`, lockRoute],
  ['DELETE', `${USER}/lock`, unlockRoute],
  ['GET', `${USER}/sessions`, sessionsRoute, ['limit', 'after']],
  ['DELETE', `${USER}/sessions`, endSessionsRoute],
  ['DELETE', '/admin/v1/sessions/:id', endSessionRoute],
  ['GET', `${USER}/devices`, devicesRoute],
  ['DELETE', '/admin/v1/devices/:id', revokeDeviceRoute],
  ['GET', '/admin/v1/throttle', throttleRoute, ['top', 'email', 'client']],
  ['DELETE', '/admin/v1/throttle', clearThrottleRoute, ['email', 'client']],
  ['GET', '/admin/v1/audit', auditRoute, ['target', 'since', 'limit', 'before']],
]

/** An email of 254 characters, each of which takes nine in an address. */
const PARAM_MAX_LENGTH = 254 * 9
const RETRY_WORK_SECONDS = 5

type AdminAppDeps = ServerDeps & {
  store: RouteDeps['store']
  clock: () => Date
}

export function buildAdminApp(deps: AdminAppDeps): FastifyInstance {
  const { config, clock, track } = deps
  const { bcryptCost, budgets } = config
  const passwordRules = {
    minLength: config.passwordMinLength,
    brandName: config.page.brandName,
    toOverrule: 'send "allowWeak": true',
  }
  const store = queueOperations(deps.store)
  const oneAtATime = createWorkQueue()
  const hashPassword = (password: string) => oneAtATime(() => bcrypt.hash(password, bcryptCost))
  // Its callers reach this port directly: a header that a proxy would set is forged.
  const direct = { ...deps, config: { ...config, trustedProxies: [] } }
  const { app, refuseOtherMethods } = createServer(direct, {
    maxParamLength: PARAM_MAX_LENGTH,
    admit: admit(followTokens(config.adminTokensFile)),
  })
  app.decorateRequest(TOKEN, null)

  for (const route of ADMIN_ROUTES) {
    const [method, url] = route
    const handler = async (request: FastifyRequest, reply: FastifyReply) => {
      const by = { kind: 'token' as const, name: tokenOf(request).name, host: clientOf(request).ip }
      const hashing = { bcryptCost, hashPassword, passwordRules, oneAtATime }
      const routeDeps = { store, clock, by, budgets, ...hashing }
      let outcome: Outcome = { code: 'INTERNAL_ERROR', details: {} }
      try {
        outcome = await track(() => outcomeOf(route, routeDeps, request))
      } finally {
        if (isChange(request)) logChange(request, outcome)
      }
      return 'code' in outcome
        ? sendFailure(reply, outcome.code, outcome.details)
        : reply.code(statusFor(outcome)).send({ success: true, data: outcome.data })
    }
    app.route({ method, url, handler })
  }
  refuseOtherMethods()
  return app
}

type Outcome = { data: object; isNew?: boolean } | { code: FailureCode; details: Details }

async function outcomeOf(
  [method, , handle, queryNames = []]: Route,
  deps: RouteDeps,
  request: FastifyRequest,
): Promise<Outcome> {
  try {
    const query = queryOf(request, queryNames)
    // The routes of other methods check the body that they take.
    if (method === 'DELETE' && request.body !== undefined) bodyOf(request, [])
    return await handle(deps, request, query)
  } catch (error) {
    if (error instanceof Refusal || error instanceof InvalidInput) {
      const { message, field } = error
      const code = error instanceof Refusal ? CODE_OF[error.reason] : 'INVALID_REQUEST'
      return { code, details: { message, ...(field && { fields: [field] }) } }
    }
    if (error instanceof TooMuchWork) {
      return { code: 'SERVICE_UNAVAILABLE', details: { retryAfterSeconds: RETRY_WORK_SECONDS } }
    }
    throw error
  }
}

const CODE_OF: Record<Refusal['reason'], FailureCode> = {
  'not-found': 'NOT_FOUND',
  taken: 'EMAIL_TAKEN',
  invalid: 'INVALID_REQUEST',
}

function statusFor(outcome: Outcome): number {
  if ('code' in outcome) return statusOf(outcome.code)
  return outcome.isNew ? 201 : 200
}

/** Written when the change is done, whether or not its caller is still connected. */
function logChange(request: FastifyRequest, outcome: Outcome): void {
  const { method, routeOptions, params, query, body } = request
  const { user, id, email, client } = { ...Object(query), ...Object(params) }
  // No other field of the body: one that is misspelt may hold a password.
  const target = user ?? id ?? email ?? client ?? Object(body).email
  logOf(request).info({
    event: 'admin.request',
    tokenName: tokenOf(request).name,
    method,
    route: routeOptions.url,
    status: statusFor(outcome),
    ...('code' in outcome && { code: outcome.code }),
    ...(typeof target === 'string' && { target }),
  })
}
