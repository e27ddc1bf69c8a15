// The people at the console: admits a request by its session, and tells what its user may do there, and to which person.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../config/config.ts'
import { statusOf } from '../../http/answer/envelope.ts'
import { html } from '../../http/page/html.ts'
import { askingAgainPage, notFoundPage } from '../../http/page/layout.ts'
import { clientOf } from '../../http/request/client.ts'
import { isChange } from '../../http/request/csrf.ts'
import { logCounted, logOf } from '../../http/request/log.ts'
import type { FactorDeps } from '../../http/routes/factor-forms.ts'
import { cookieOfForm } from '../../http/routes/forms.ts'
import { csrfOf, mustAskAgain, sendPage, visitorOf } from '../../http/routes/page.ts'
import { accessBy, logDenied, sendDenied } from '../../http/routes/session-access.ts'
import type { CountedClient } from '../../system/client-group.ts'
import { isUuid } from '../../system/identifiers.ts'
import type { For, Operation } from '../operation.ts'
import type { AdminDeps } from '../operations/deps.ts'
import { type Explanation, explainUser } from '../operations/explain-user.ts'
import { consolePage, emailOf, frameOf, type Staff } from './layout.ts'

/** What is dangerous needs a login of these last minutes: perhaps somebody has left the browser open. */
const RECENT_MS = 15 * 60_000

export type ConsoleDeps = FactorDeps & {
  roles: NonNullable<Config['console']>
  admin: Omit<AdminDeps, 'by'>
}

type Handle = (staff: Staff, request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>

/** Calls the handler for a session of a user with a role of the console. Without a session it leads to the login and back. */
export function withStaff(deps: ConsoleDeps, handle: Handle) {
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
        return sendPage(reply, askingAgainPage(frameOf(deps.page), request.url))
      }
      return toLogin(request, reply)
    }
    const { user, session, hasSecondFactor } = access.live
    const staff = {
      user,
      rank: rankOf(deps, user.role),
      csrf: csrfOf(request) ?? '',
      // A login in the future was on a clock that was wrong.
      isRecent: Math.abs(+deps.admin.clock() - +session.createdAt) < RECENT_MS,
      isWithoutFactor: !hasSecondFactor,
    }
    if (staff.rank === null) return sendNotAllowed(deps, staff, request, reply, null)
    return handle(staff, request, reply)
  }
}

export function rankOf({ roles }: Pick<ConsoleDeps, 'roles'>, role: string): For | null {
  if (roles.adminRoles.includes(role)) return 'administrator'
  return roles.helpdeskRoles.includes(role) ? 'helpdesk' : null
}

/** The login leads back to the page, or to the person whom a form concerns. */
export function toLogin(request: FastifyRequest, reply: FastifyReply, more = {}): FastifyReply {
  const path = isChange(request) ? request.url.replace(/(\/people\/[^/?]+).*/, '$1') : request.url
  return reply.redirect(`/login?${new URLSearchParams({ return_to: path, ...more })}`, 303)
}

/** What its operations are given: the person is the actor. */
export function adminDeps(
  { admin }: ConsoleDeps,
  { user }: Staff,
  request: FastifyRequest,
): AdminDeps {
  const { ip: host } = clientOf(request)
  return { ...admin, by: { kind: 'person', id: user.id, name: user.email, host } }
}

/** Whom the address names; null if there is none. */
export async function findPerson(
  admin: AdminDeps,
  request: FastifyRequest,
  client: CountedClient | null = null,
) {
  const { id } = request.params as { id?: string }
  const user = isUuid(id) ? await admin.store.users.findById(id.toLowerCase()) : null
  return user && explainUser(admin, user, client)
}

export function sendNoPerson({ page }: ConsoleDeps, reply: FastifyReply): FastifyReply {
  return sendPage(reply.code(404), notFoundPage(frameOf(page)))
}

/** `target`: the user that it concerns. */
export function logRequest(
  { user }: Staff,
  request: FastifyRequest,
  status: number,
  target?: string,
): void {
  const { method, routeOptions } = request
  const by = { personId: user.id, person: user.email }
  const facts = { ...by, method, route: routeOptions.url, status, ...(target && { target }) }
  logOf(request).info({ event: 'admin.request', ...facts })
}

/** Why it may not be done; null if it may. `person` is whom it is done to; null: nobody yet. */
export function refusalOf(
  deps: ConsoleDeps,
  { user, rank }: Staff,
  { for: level, form, request }: Operation,
  person: Explanation | null,
): string | null {
  const isAllowed = level === 'helpdesk' || (level === 'administrator' && rank === level)
  if (!isAllowed || rank === null) return 'Only administrators may do this.'
  if (person === null || request?.startsWith('GET ')) return null
  if (person.id === user.id) return 'You cannot change yourself here: ask another administrator.'
  if (rank === 'administrator') return null
  if (rankOf(deps, person.role)) return 'Only administrators may change a person with this role.'
  const isBeyond = form?.isBeyondHelpdesk?.(person, deps.admin.clock())
  return isBeyond ? 'Only administrators may do this to this person.' : null
}

export function sendNotAllowed(
  { page, roles, sessions, admin }: ConsoleDeps,
  staff: Staff,
  request: FastifyRequest,
  reply: FastifyReply,
  refusal: string | null,
): FastifyReply {
  const { user, rank } = staff
  const reason = rank ? 'not-allowed' : 'role'
  logCounted(request, 'warn', { event: 'admin.refused', reason, userId: user.id })
  const names = [...roles.helpdeskRoles, ...roles.adminRoles].join(', ')
  const main = html`<section class="card stack">
        <h1>${refusal ? 'Not allowed' : 'Your role does not allow this'}</h1>
        ${
          refusal
            ? html`<p>${refusal}</p>`
            : html`<p>You are logged in as <strong>${emailOf(user.email)}</strong> with the role <strong dir="auto">${user.role}</strong>. These pages are for the roles <strong dir="auto">${names}</strong>.</p>
        <p class="detail">If you need them, ask an administrator to change your role, then log in again.</p>`
        }
        <div class="fields">${
          refusal
            ? html`<a class="button primary" href="/console/people">All people</a>`
            : html`<a class="button primary" href="${new URL('/login', sessions.tokens.issuer).href}">To your account</a>`
        }</div>
      </section>`
  const content = { title: 'Not allowed', main, isNarrow: true, now: admin.clock() }
  return sendPage(reply.code(statusOf('FORBIDDEN')), consolePage(page, staff, content))
}
