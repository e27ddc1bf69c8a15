// GET /, /login and /login/password: the forms, or the account of a user with a live session. Also the files that
// pages load, and the answer to other addresses.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../config/config.ts'
import type { LiveSession } from '../../domain/session.ts'
import { demandsSecondFactor } from '../../session/demanded-factor.ts'
import type { IssueDeps } from '../../session/issue-code.ts'
import { listOwnFactors, listOwnSessions } from '../../session/own-sessions.ts'
import { isUuid } from '../../system/identifiers.ts'
import { sendFailure } from '../answer/envelope.ts'
import { accountPage } from '../page/account.ts'
import { loginPage, passwordPage } from '../page/forms.ts'
import {
  askingAgainPage,
  type Frame,
  frameFor,
  leavingPage,
  type Notice,
  notFoundPage,
} from '../page/layout.ts'
import type { OtpField } from '../page/otp-fields.ts'
import type { Page } from '../page/page.ts'
import type { TextKey } from '../page/texts.ts'
import {
  doneCookieOf,
  hasSecondStepCookie,
  sessionCookieOf,
  setDoneCookie,
} from '../request/cookies.ts'
import { makeCsrfToken } from '../request/csrf.ts'
import { addVary } from './asset.ts'
import { depart, destinationOf, isNavigation, isSentBack } from './destination.ts'
import { cookieOf, logDenied, readBy, type SessionAccess, sendDenied } from './session-access.ts'

export const PAGE_HEADERS = {
  // A page loads from this origin only, without inline scripts and styles. This must not get exceptions.
  'content-security-policy': [
    "default-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "object-src 'none'",
    "require-trusted-types-for 'script'",
  ].join('; '),
  // A site that opens the login page in a window gets no handle to it.
  'cross-origin-opener-policy': 'same-origin',
  // Other hosts of the same domain share no process memory or document.domain with the page.
  'origin-agent-cluster': '?1',
}
/** On each page of the list, beside the session of the request. */
const OTHERS_SHOWN = 20

export type PageDeps = {
  page: Page
  sessions: SessionAccess & IssueDeps
  config: Pick<Config, 'returnToOrigins' | 'codeCallbacks' | 'secondFactor'>
}

/** What was done before this page by one of our forms or links: `done` in its address. */
type Done =
  | 'logged-in'
  | 'changed'
  | 'turned-off'
  | 'removed'
  | 'passkey-added'
  | 'ended'
  | 'others-ended'
  | 'logged-out'
  | 'continue'

const SAID_WITH_SESSION = new Map<unknown, TextKey>([
  ['changed', 'passwordChanged'],
  ['turned-off', 'turnedOff'],
  ['removed', 'removed'],
  ['passkey-added', 'passkeyAdded'],
  ['ended', 'oneEnded'],
  ['others-ended', 'othersEnded'],
] satisfies [Done, TextKey][])
export const SAID_WITHOUT_SESSION = new Map<unknown, TextKey>([
  ['logged-in', 'noCookie'],
  ['changed', 'noCookie'],
  ['logged-out', 'loggedOut'],
] satisfies [Done, TextKey][])

/**
 * Other sites and programs that open an address must not put words into the service's mouth. Firefox does not say that a
 * redirect of the page's own form is same-origin, but has the cookie of the form's answer.
 */
export function doneOf(request: FastifyRequest): unknown {
  const { done } = Object(request.query)
  const { cookie, 'sec-fetch-site': site } = request.headers
  const isOurs = site === 'same-origin' || done === doneCookieOf(request)
  // Without any cookie, the user is told that the browser stores none.
  return isOurs || (site === 'none' && cookie === undefined) ? done : undefined
}

/**
 * Leads on from a form that succeeded. `prompt` is dropped: the user has just shown the password. The page of the list
 * stays if one of its sessions was ended.
 */
export function redirectDone(
  page: Page,
  request: FastifyRequest,
  reply: FastifyReply,
  done: Done,
): FastifyReply {
  const dropped = done === 'ended' ? ['prompt'] : ['prompt', 'after']
  setDoneCookie(reply, done)
  return reply.redirect(frameOf(page, request, dropped).href('/login', { done }), 303)
}

export function frameOf(page: Page, { query, headers }: FastifyRequest, dropped?: string[]): Frame {
  return frameFor(page, query as Record<string, unknown>, headers['accept-language'], dropped)
}

export function sendPage(reply: FastifyReply, document: string): FastifyReply {
  addVary(reply, 'Accept-Language')
  return reply.headers(PAGE_HEADERS).type('text/html; charset=utf-8').send(document)
}

export function loginPageRoute(deps: PageDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { prompt, after } = request.query as Record<string, unknown>
    const done = doneOf(request)
    const access = prompt === 'login' ? null : await visitorOf(deps, request)
    if (access?.kind === 'limited') return sendDenied(request, reply, access)
    if (access?.kind === 'absent' && mustAskAgain(request)) {
      return sendPage(reply, askingAgainPage(frameOf(deps.page, request), '/login'))
    }
    const asked = destinationOf(request, deps.config)
    const isRefused = asked.kind === 'refused'
    const frame = frameOf(deps.page, request, isRefused ? ['return_to', 'challenge'] : [])
    const refusal = isRefused ? refuseReturn(frame, asked.host) : null
    if (access?.kind !== 'granted') {
      const isEnded = access?.kind === 'denied'
      const said = isEnded ? 'sessionEnded' : SAID_WITHOUT_SESSION.get(done)
      const notice = refusal ?? (said ? information(frame.text(said)) : null)
      const host = asked.kind === 'accepted' ? asked.host : null
      return sendPage(
        reply,
        loginPage(frame, { email: emailOf(access), otp: otpFieldOf(deps, request), notice, host }),
      )
    }
    const { live } = access
    if (asked.kind !== 'accepted') {
      return showAccount(deps, request, reply, frame, live, { notice: refusal })
    }
    // The user asks for it by logging in, or by the link of the account.
    const isAskedFor = ['logged-in', 'changed', 'continue'].includes(String(done))
    const isBack = isSentBack(request, asked) && !isAskedFor
    const isStaying = isBack || (after !== undefined && !isAskedFor)
    if (isNavigation(request) && !isStaying) {
      const address = await depart(deps.sessions, request, reply, live, asked)
      return address === null ? reply : sendPage(reply, leavingPage(frame, address))
    }
    const { host, code } = asked
    // Only this page can add a code.
    const address = code ? frame.href('/login', { done: 'continue' }) : asked.address
    const notice = isBack ? information(frame.text('sentBack', { host })) : null
    return showAccount(deps, request, reply, frame, live, { notice, next: { address, host } })
  }
}

type Visitor = Awaited<ReturnType<typeof visitorOf>>

export async function visitorOf({ sessions }: PageDeps, request: FastifyRequest) {
  const access = await readBy(sessions, cookieOf(sessions, request))
  if (access.kind === 'denied') logDenied(request, access)
  return access
}

export function emailOf(access: Visitor | null): string {
  if (access?.kind === 'granted') return access.live.user.email
  return (access?.kind === 'denied' && access.email) || ''
}

/**
 * True for a request that a page of another site caused, and that may lack the cookies for this reason. "none" is also
 * sent if the user has entered the address of an application, which led here.
 */
export function mustAskAgain(request: FastifyRequest): boolean {
  const { again, return_to: asked } = request.query as Record<string, unknown>
  const site = request.headers['sec-fetch-site']
  const isForeign = site === 'cross-site' || (site === 'none' && asked !== undefined)
  return isForeign && again === undefined && sessionCookieOf(request) === null
}

export const information = (text: string): Notice => ({ kind: 'information', text })

export const failed = (text: string): Notice => ({ kind: 'error', text })

function refuseReturn({ text }: Frame, host: string | null): Notice {
  return failed(host === null ? text('returnUnreadable') : text('returnRefused', { host }))
}

type Shown = { notice: Notice | null; next?: { address: string; host: string } }

async function showAccount(
  { page, sessions, config }: PageDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  frame: Frame,
  live: LiveSession,
  { notice, next }: Shown,
) {
  const done = doneOf(request)
  const said = SAID_WITH_SESSION.get(done)
  const { after } = request.query as Record<string, unknown>
  const afterId = typeof after === 'string' && isUuid(after) ? after.toLowerCase() : null
  const home = page.homeUrl && { address: page.homeUrl, host: new URL(page.homeUrl).host }
  const account = accountPage(frame, {
    live,
    others: await readOthers(sessions, live, afterId),
    csrf: csrfOf(request) ?? '',
    notice: notice ?? (said ? information(frame.text(said)) : null),
    secondStep: config.secondFactor === 'off' ? null : await readSecondStep(sessions, live),
    isPasswordChanged: done === 'changed',
    next: next ? { ...next, isHome: false } : home ? { ...home, isHome: true } : null,
  })
  return sendPage(reply, account)
}

async function readSecondStep(deps: SessionAccess, live: LiveSession) {
  const isDemanded = demandsSecondFactor(deps.secondFactorRoles, live.user.role)
  return { ...(await listOwnFactors(deps, live)), isDemanded }
}

/** The first page of the list, if there are none after `after`: they may have been ended. */
async function readOthers(deps: SessionAccess, live: LiveSession, after: string | null) {
  const order = { isLastFirst: true, othersOf: live.session.id } as const
  const page = { afterId: after, limit: OTHERS_SHOWN, ...order }
  const listed = await listOwnSessions(deps, live, page)
  if (listed && (listed.sessions.length > 0 || after === null)) return { ...listed, after }
  return readOthers(deps, live, null)
}

/** `hasSecondFactor` is null if the user is not known: the page must not tell strangers. */
export function otpFieldOf(
  { config, sessions }: PageDeps,
  request: FastifyRequest,
  hasSecondFactor: boolean | null = null,
): OtpField {
  if (config.secondFactor === 'off' || hasSecondFactor === false) return 'none'
  if (hasSecondFactor) return 'required'
  if (hasSecondStepCookie(request)) return 'open'
  const isRefused = request.method === 'POST'
  return isRefused || sessions.secondFactorRoles.includes('*') ? 'open-hint' : 'closed'
}

/** Null without a session cookie. */
export function csrfOf(request: FastifyRequest): string | null {
  const cookie = sessionCookieOf(request)
  return cookie && makeCsrfToken(cookie)
}

export function passwordPageRoute(deps: PageDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const frame = frameOf(deps.page, request)
    const access = await visitorOf(deps, request)
    if (access.kind === 'limited') return sendDenied(request, reply, access)
    if (mustAskAgain(request)) return sendPage(reply, askingAgainPage(frame, '/login/password'))
    const [email, csrf] = [emailOf(access), csrfOf(request)]
    const isEmailKnown = access.kind === 'granted'
    const factors = isEmailKnown ? (await listOwnFactors(deps.sessions, access.live)).factors : []
    const otp = otpFieldOf(deps, request, isEmailKnown ? factors.length > 0 : null)
    const hasPasskey = factors.some(({ kind }) => kind === 'passkey')
    return sendPage(reply, passwordPage(frame, { email, otp, hasPasskey, csrf, isEmailKnown }))
  }
}

/** A browser asks for the address of a form, for example after a refusal. */
export function toLoginRoute(page: Page) {
  return async (request: FastifyRequest, reply: FastifyReply) =>
    reply.redirect(frameOf(page, request).href('/login'), 303)
}

/** Whether a browser shows the answer to its user. */
export function isForBrowser({ method, headers }: FastifyRequest): boolean {
  return method === 'GET' && headers.accept?.includes('text/html') === true
}

/** A browser that shows the answer to a user gets a page; all others get the envelope. */
export function notFoundRoute(page: Page) {
  return (request: FastifyRequest, reply: FastifyReply) => {
    if (!isForBrowser(request)) return sendFailure(reply, 'NOT_FOUND')
    return sendPage(reply.code(404), notFoundPage(frameOf(page, request)))
  }
}
