// POST /login and below: what the forms of the pages send. A form does the same as an operation of the API. Success
// leads to a page of its own; a refusal is a page, see form-failures.ts.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { LiveSession } from '../../domain/session.ts'
import { endOtherSessions, endOwnSession } from '../../session/own-sessions.ts'
import { isUuid } from '../../system/identifiers.ts'
import { formOf } from '../request/body.ts'
import { refuse } from '../request/log.ts'
import { changeCredentials, type NewPasswordDeps } from './change-password.ts'
import { reportEnded } from './ended-session.ts'
import { logIn, type Sent } from './login.ts'
import { logOut } from './logout.ts'
import { frameOf, type PageDeps, redirectDone } from './page.ts'
import { accessBy, cookieOf, sendDenied } from './session-access.ts'

export type FormDeps = PageDeps & NewPasswordDeps

export function loginFormRoute({ page, login }: FormDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { email = '', password = '' } = formOf(request)
    const fields = missingIn({ email, password })
    if (fields.length > 0) return refuse(request, reply, 'VALIDATION_ERROR', { fields })
    const sent = { email, password, ...proofIn(request) }
    return logIn(login, request, reply, sent, () => redirectDone(page, request, reply, 'logged-in'))
  }
}

export function passwordFormRoute(deps: FormDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const shown = cookieOfForm(request)
    if (shown.kind === 'cross-site') return sendDenied(request, reply, shown)
    const { email = '', password = '', known, ...form } = formOf(request)
    const change = { email, password, newPassword: form['new-password'] ?? '' }
    const proof = proofIn(request)
    const fields = missingIn({ ...change, ...(known === '1' && { otp: proof.otp }) })
    if (fields.length > 0) return refuse(request, reply, 'VALIDATION_ERROR', { fields })
    return changeCredentials(deps, request, reply, { ...change, ...proof }, () =>
      redirectDone(deps.page, request, reply, 'changed'),
    )
  }
}

/** The script has joined the parts of a passkey, which have no dots. */
export function proofIn(request: FastifyRequest): Pick<Sent, 'otp' | 'passkey'> {
  const { otp, passkey = '' } = formOf(request)
  if (passkey === '') return { otp }
  const [id = '', clientDataJSON = '', authenticatorData = '', signature = ''] = passkey.split('.')
  return { passkey: { id, clientDataJSON, authenticatorData, signature } }
}

/** The names of fields that were left empty. Only a password may consist of spaces. */
export function missingIn(fields: Record<string, string | undefined>): string[] {
  const names = Object.keys(fields)
  return names.filter(name => (/password/i.test(name) ? fields[name] : fields[name]?.trim()) === '')
}

/** An origin that CORS_ORIGINS lists may use the cookie, but sends no forms. */
export function cookieOfForm(request: FastifyRequest) {
  return cookieOf({ isListedOrigin: () => false }, request, formOf(request).csrf)
}

/** Without a live session, there is nothing left to do. */
export function logoutFormRoute({ page, sessions }: FormDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const shown = cookieOfForm(request)
    if (shown.kind === 'cross-site') return sendDenied(request, reply, shown)
    if (shown.kind !== 'absent') await logOut(sessions, request, reply, shown)
    return redirectDone(page, request, reply, 'logged-out')
  }
}

export function endSessionFormRoute(deps: FormDeps) {
  return withSessionOfForm(deps, async (live, request) => {
    const { id } = request.params as { id: string }
    // A session that is not found has already ended.
    const isEnded = isUuid(id) && (await endOwnSession(deps.sessions, live, id.toLowerCase()))
    return { done: 'ended', ended: isEnded ? [id.toLowerCase()] : [] }
  })
}

export function endOthersFormRoute(deps: FormDeps) {
  return withSessionOfForm(deps, async live => ({
    done: 'others-ended',
    ended: (await endOtherSessions(deps.sessions, live)) ?? [],
  }))
}

type Ended = { done: 'ended' | 'others-ended'; ended: string[] }

/** Without a live session, the form leads to the login, which says so. */
function withSessionOfForm(
  { page, sessions }: FormDeps,
  end: (live: LiveSession, request: FastifyRequest) => Promise<Ended>,
) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const access = await accessBy(sessions, cookieOfForm(request))
    if (access.kind === 'cross-site') return sendDenied(request, reply, access)
    if (access.kind !== 'granted') return reply.redirect(frameOf(page, request).href('/login'), 303)
    const { done, ended } = await end(access.live, request)
    for (const id of ended) reportEnded(request, id, access.live.user.id, 'user')
    return redirectDone(page, request, reply, done)
  }
}
