// The admin app: the console, and every route of the admin API, with how its outcome is answered and logged.
import { Readable } from 'node:stream'
import bcrypt from 'bcrypt'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  type Details,
  type FailureCode,
  isOfPage,
  sendFailure,
  statusOf,
} from '../../http/answer/envelope.ts'
import type { Page } from '../../http/page/page.ts'
import { clientOf } from '../../http/request/client.ts'
import { CONSOLE_SESSION } from '../../http/request/cookies.ts'
import { isChange } from '../../http/request/csrf.ts'
import { loggedEmail, logOf } from '../../http/request/log.ts'
import { toTimeoutPage } from '../../http/routes/form-failures.ts'
import { isForBrowser, notFoundRoute } from '../../http/routes/page.ts'
import { addReference } from '../../http/routes/reference.ts'
import { createServer, type ServerDeps } from '../../http/server.ts'
import { EMAIL_MAX_LENGTH } from '../../login/credentials.ts'
import { isUuid } from '../../system/identifiers.ts'
import { addConsole } from '../console/console.ts'
import type { ConsoleDeps } from '../console/visit.ts'
import { JsonText } from '../layout.ts'
import type { Operation } from '../operation.ts'
import type { AdminDeps, AdminStore } from '../operations/deps.ts'
import { OPERATIONS } from '../operations.ts'
import { admitTokens, problemWithFields, TOKEN, tokenOf } from './access.ts'
import { ADMIN_API } from './description.ts'
import { toRefusal } from './refusal.ts'
import { addressOf, handle, optionsOf } from './route.ts'
import { createWorkQueue, queueOperations } from './work-queue.ts'

/** The method and address of every operation that has them. */
export const ADMIN_ROUTES = Object.values<Operation>(OPERATIONS).flatMap(operation => {
  const address = addressOf(operation)
  return address ? [[address.method, address.url] as const] : []
})

/** That of the longest email, each character of which takes nine in an address. */
const PARAM_MAX_LENGTH = EMAIL_MAX_LENGTH * 9

type AdminAppDeps = ServerDeps & {
  store: AdminStore
  clock: () => Date
  page: Page
  /** Null: there is none. */
  console: Omit<ConsoleDeps, 'admin' | 'forms'> | null
}

export function buildAdminApp(deps: AdminAppDeps): FastifyInstance {
  const { config, clock, metrics, page } = deps
  const { bcryptCost, budgets, secondFactorRoles } = config
  const oneAtATime = createWorkQueue()
  const toOverrule = 'send "allowWeak": true with a "write" token'
  const store = queueOperations(deps.store)
  const shared = {
    ...{ store, clock, budgets, bcryptCost, secondFactorRoles, oneAtATime },
    hashPassword: (password: string) => oneAtATime(() => bcrypt.hash(password, bcryptCost)),
    passwordRules: { ...config.passwordRules, toOverrule },
  }
  const proxied = { ...deps, config: { ...config, trustProxy: config.adminTrustProxy } }
  /** For a page of the console, or for none that a browser asks for. */
  const isForPerson = (request: FastifyRequest) =>
    isOfPage(request) || (deps.console !== null && isForBrowser(request) && request.is404)
  const admit = admitTokens(deps.store.adminTokens, clock, metrics.adminRead)
  const { app, refuseOtherMethods } = createServer(proxied, {
    maxParamLength: PARAM_MAX_LENGTH,
    sessionCookie: CONSOLE_SESSION,
    // Proxies are in front of the console only.
    isDirect: request => !isForPerson(request),
    admit: async (request, reply) => (isForPerson(request) ? undefined : admit(request, reply)),
    ...(deps.console && { notFound: notFoundRoute(page), toTimeoutPage: toTimeoutPage(page) }),
  })
  app.decorateRequest(TOKEN, null)
  if (deps.console) addConsole(app, { ...deps.console, admin: shared })
  addReference(app, page, ADMIN_API)

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
    return toRefusal(error)
  }
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
