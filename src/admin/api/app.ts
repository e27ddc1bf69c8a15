// The admin app: every route, and how its outcome is answered and logged.
import { Readable } from 'node:stream'
import bcrypt from 'bcrypt'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { DatabaseBusy } from '../../domain/store.ts'
import {
  type Details,
  type FailureCode,
  sendFailure,
  statusOf,
} from '../../http/answer/envelope.ts'
import type { Page } from '../../http/page/page.ts'
import { clientOf } from '../../http/request/client.ts'
import { isChange } from '../../http/request/csrf.ts'
import { loggedEmail, logOf } from '../../http/request/log.ts'
import { addReference } from '../../http/routes/reference.ts'
import { createServer, type ServerDeps } from '../../http/server.ts'
import { EMAIL_MAX_LENGTH } from '../../login/credentials.ts'
import { Failure } from '../../system/failures.ts'
import { isUuid } from '../../system/identifiers.ts'
import { JsonText } from '../layout.ts'
import type { Operation } from '../operation.ts'
import type { AdminDeps, AdminStore } from '../operations/deps.ts'
import { OPERATIONS } from '../operations.ts'
import { admitTokens, problemWithFields, TOKEN, tokenOf } from './access.ts'
import { ADMIN_API } from './description.ts'
import { addressOf, handle, optionsOf } from './route.ts'
import { createWorkQueue, queueOperations } from './work-queue.ts'

/** The method and address of every operation that has them. */
export const ADMIN_ROUTES = Object.values<Operation>(OPERATIONS).flatMap(operation => {
  const address = addressOf(operation)
  return address ? [[address.method, address.url] as const] : []
})

/** That of the longest email, each character of which takes nine in an address. */
const PARAM_MAX_LENGTH = EMAIL_MAX_LENGTH * 9
const RETRY_WORK_SECONDS = 5

type AdminAppDeps = ServerDeps & {
  store: AdminStore
  clock: () => Date
  page: Page
}

export function buildAdminApp(deps: AdminAppDeps): FastifyInstance {
  const { config, clock, metrics } = deps
  const { bcryptCost, budgets, secondFactorRoles } = config
  const oneAtATime = createWorkQueue()
  const toOverrule = 'send "allowWeak": true with a "write" token'
  const store = queueOperations(deps.store)
  const shared = {
    ...{ store, clock, budgets, bcryptCost, secondFactorRoles, oneAtATime },
    hashPassword: (password: string) => oneAtATime(() => bcrypt.hash(password, bcryptCost)),
    passwordRules: { ...config.passwordRules, toOverrule },
  }
  // Its callers reach this port directly: a header that a proxy would set is forged.
  const direct = { ...deps, config: { ...config, trustProxy: [] } }
  const { app, refuseOtherMethods } = createServer(direct, {
    maxParamLength: PARAM_MAX_LENGTH,
    admit: admitTokens(deps.store.adminTokens, clock, metrics.adminRead),
  })
  app.decorateRequest(TOKEN, null)
  addReference(app, deps.page, ADMIN_API)

  for (const [id, operation] of Object.entries<Operation>(OPERATIONS)) {
    const address = addressOf(operation)
    if (!address) continue
    const handler = async (request: FastifyRequest, reply: FastifyReply) => {
      const by = { kind: 'token' as const, name: tokenOf(request).name, host: clientOf(request).ip }
      let outcome: Outcome = { code: 'INTERNAL_ERROR', details: {} }
      try {
        outcome = await outcomeOf(operation, { ...shared, by }, request)
      } finally {
        if (isChange(request) || operation.isLogged) logRequest(request, outcome)
      }
      if ('code' in outcome) return sendFailure(reply, outcome.code, outcome.details)
      const { status, data } = outcome
      if (!(data instanceof JsonText)) return reply.code(status).send({ success: true, data })
      const body = Readable.from(inOneLine(data))
      return reply.code(status).type('application/json; charset=utf-8').send(body)
    }
    app.route({ ...address, ...optionsOf(id, operation), handler })
  }
  refuseOtherMethods()
  return app
}

type Outcome = { status: number; data: unknown } | { code: FailureCode; details: Details }

/** A text in JSON has no line break. */
function* inOneLine({ pieces }: JsonText): Generator<string> {
  yield '{"success":true,"data":'
  for (const piece of pieces) yield piece.replaceAll(/\n */g, '')
  yield '}'
}

async function outcomeOf(
  operation: Operation,
  deps: AdminDeps,
  request: FastifyRequest,
): Promise<Outcome> {
  try {
    const message = problemWithFields(request)
    if (message) return { code: 'FORBIDDEN', details: { message } }
    return { status: operation.status ?? 200, data: await handle(operation, deps, request) }
  } catch (error) {
    const code = error instanceof Failure && CODE_OF[error.code]
    if (code) {
      const { message, field, reason } = error
      const details = { message, ...(field && { fields: [field] }), ...(reason && { reason }) }
      return { code, details }
    }
    if (error instanceof DatabaseBusy) {
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
  'password-known': 'PASSWORD_KNOWN',
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
