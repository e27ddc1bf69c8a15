// The people at the console: admits a request by its session, and tells what its user may do there, and to which person.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { statusOf } from '../../http/answer/envelope.ts'
import { html } from '../../http/page/html.ts'
import { askingAgainPage, notFoundPage } from '../../http/page/layout.ts'
import { clientOf } from '../../http/request/client.ts'
import { isChange } from '../../http/request/csrf.ts'
import { logCounted, logOf } from '../../http/request/log.ts'
import { cookieOfForm } from '../../http/routes/forms.ts'
import { csrfOf, mustAskAgain, sendPage, visitorOf } from '../../http/routes/page.ts'
import { accessBy, logDenied, sendDenied } from '../../http/routes/session-access.ts'
import type { CountedClient } from '../../system/client-group.ts'
import { isUuid } from '../../system/identifiers.ts'
import type { For, Operation } from '../operation.ts'
import { type Explanation, explainUser } from '../operations/explain-user.ts'
import { consoleFrame, emailHtml, send } from './layout.ts'
import type { ConsoleDeps, Visit } from './visit.ts'

/** What is dangerous needs a login of the last minutes: the browser may have been left open. */
const RECENT_MS = 15 * 60_000

/** What a page says that a login has led back to. */
export const AGAIN = 'again'

/** Handles requests of users with a role of the console. Without a session they lead to the login and back. */
export function withStaff(
  deps: ConsoleDeps,
  handle: (visit: Visit) => FastifyReply | Promise<FastifyReply>,
) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const isForm = isChange(request)
    const access = isForm
      ? await accessBy(deps.sessions, cookieOfForm(request))
      : await visitorOf(deps, request)
    if (access.kind === 'cross-site' || access.kind === 'limited') {
      return sendDenied(request, reply, access)
    }
    if (access.kind !== 'granted') {
      if (isForm) logDenied(request, access)
      else if (mustAskAgain(request)) {
        return sendPage(reply, askingAgainPage(consoleFrame(deps.page), pathOf(request)))
      }
      return sendToLogin({ request, reply })
    }
    const { user, session, hasSecondFactor } = access.live
    const { ip: host } = clientOf(request)
    const now = deps.admin.clock()
    const visit: Visit = {
      ...{ deps, request, reply, user, hasSecondFactor, now },
      rank: rankOf(deps, user.role),
      csrf: csrfOf(request) ?? '',
      // A login in the future was on a clock that was wrong.
      isRecent: Math.abs(+now - +session.createdAt) < RECENT_MS,
      admin: { ...deps.admin, by: { kind: 'person', id: user.id, name: user.email, host } },
    }
    return visit.rank === null ? sendNotAllowed(visit, null) : handle(visit)
  }
}

export function rankOf({ roles }: ConsoleDeps, role: string): For | null {
  if (roles.adminRoles.includes(role)) return 'administrator'
  return roles.helpdeskRoles.includes(role) ? 'helpdesk' : null
}

/** `person` is null where there is none yet. */
type HandlePerson = (
  visit: Visit,
  person: Explanation | null,
) => FastifyReply | Promise<FastifyReply>

/** The same for an operation on the person of the address, before anything else is looked at. */
export function withPerson(deps: ConsoleDeps, operation: Operation, handle: HandlePerson) {
  return withStaff(deps, async visit => {
    const { id } = visit.request.params as { id?: string }
    const person = id === undefined ? null : await findPerson(visit)
    const refusal = refusalOf(visit, operation, person)
    if (refusal) return sendNotAllowed(visit, refusal)
    return id !== undefined && !person ? sendNoPerson(visit) : handle(visit, person)
  })
}

/** Leads back to the page, or to the person of a form, which must be sent again. */
export function sendToLogin(
  { request, reply }: Pick<Visit, 'request' | 'reply'>,
  isAskedAgain = false,
): FastifyReply {
  const path = pathOf(request)
  const person = path.replace(/(\/people\/[^/?]+).*/, '$1')
  const back = isChange(request) ? `${person}?done=${AGAIN}` : path
  const prompt = isAskedAgain && { prompt: 'login' }
  return reply.redirect(`/login?${new URLSearchParams({ return_to: back, ...prompt })}`, 303)
}

/** A request line may name a host too. */
const pathOf = ({ url }: FastifyRequest) => /\/console.*/.exec(url)?.[0] ?? ''

/** Why the operation may not be done to this person, or to none; null if it may. */
export function refusalOf(
  { deps, user, rank, now }: Visit,
  { for: level, form, request }: Operation,
  person: Explanation | null,
): string | null {
  const isAllowed = level === 'helpdesk' || (level === 'administrator' && rank === level)
  if (!isAllowed || rank === null) return 'Only administrators may do this.'
  if (person === null || request?.startsWith('GET ')) return null
  if (person.id === user.id) return 'You cannot change yourself here: ask another administrator.'
  if (rank === 'administrator') return null
  if (rankOf(deps, person.role)) return 'Only administrators may change a person with this role.'
  const isBeyond = form?.isBeyondHelpdesk?.(person, now)
  return isBeyond ? 'Only administrators may do this to this person.' : null
}

/** `refusal` is null if the role has no place in the console. */
export function sendNotAllowed(visit: Visit, refusal: string | null): FastifyReply {
  const { deps, request, reply, user } = visit
  const reason = refusal ? 'not-allowed' : 'role'
  logCounted(request, 'warn', { event: 'admin.refused', reason, personId: user.id })
  reply.code(statusOf('FORBIDDEN'))
  const roles = [...deps.roles.helpdeskRoles, ...deps.roles.adminRoles].join(', ')
  const { href } = new URL('/login', deps.sessions.tokens.issuer)
  const card = refusal
    ? html`<h1>Not allowed</h1>
        <p>${refusal}</p>
        <p><a class="button primary" href="/console/people">All people</a></p>`
    : html`<h1>Your role does not allow this</h1>
        <p>You are logged in as <strong>${emailHtml(user.email)}</strong> with the role <strong dir="auto">${user.role}</strong>. These pages are for the roles <strong dir="auto">${roles}</strong>.</p>
        <p class="detail">If you need them, ask an administrator to change your role, then log in again.</p>
        <p><a class="button primary" href="${href}">To your account</a></p>`
  const main = html`<section class="card stack">${card}</section>`
  return send(visit, { title: 'Not allowed', main, isNarrow: true })
}

/** The person that the address names; null if there is none. */
export async function findPerson(
  { admin, request }: Visit,
  client: CountedClient | null = null,
): Promise<Explanation | null> {
  const { id } = request.params as { id?: string }
  const user = isUuid(id) ? await admin.store.users.findById(id.toLowerCase()) : null
  return user && explainUser(admin, user, client)
}

export function sendNoPerson({ deps, reply }: Visit): FastifyReply {
  return sendPage(reply.code(404), notFoundPage(consoleFrame(deps.page)))
}

/** `target`: the user that it concerns. */
export function logVisit({ user, request, reply }: Visit, target?: string): void {
  const { method, routeOptions } = request
  const by = { personId: user.id, person: user.email }
  const facts = { ...by, method, route: routeOptions.url, status: reply.statusCode }
  logOf(request).info({ event: 'admin.request', ...facts, ...(target && { target }) })
}
