// GET and POST /login/second-factor and below: the forms that set up, replace or remove a second factor, and make new
// recovery codes. They do the same as the operation of the API.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FactorRequest } from '../../login/attempt.ts'
import { makeSecret, parseSecret, toBase32 } from '../../login/totp.ts'
import { askingAgainPage } from '../page/layout.ts'
import { recoveryCodesPage } from '../page/recovery-codes.ts'
import { type FactorForm, factorPage } from '../page/second-factor.ts'
import { formOf } from '../request/body.ts'
import { refuse } from '../request/log.ts'
import { cookieOfForm, type FormDeps, missingIn } from './forms.ts'
import type { LoggedIn } from './login.ts'
import { csrfOf, frameOf, mustAskAgain, redirectDone, sendPage, visitorOf } from './page.ts'
import { changeSecondFactor, type SecondFactorDeps, sendUnavailable } from './second-factor.ts'
import { sendDenied } from './session-access.ts'

export type FactorDeps = FormDeps & SecondFactorDeps
type Kind = FactorRequest['kind']

/** Without a session that can use the form, it leads to the login. */
export function factorPageRoute(deps: FactorDeps, kind: Kind) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const frame = frameOf(deps.page, request)
    const access = await visitorOf(deps, request)
    if (access.kind === 'limited') return sendDenied(request, reply, access)
    const path = pathOf(request)
    if (mustAskAgain(request)) return sendPage(reply, askingAgainPage(frame, path))
    const isSetUp = kind === 'set-totp'
    if (access.kind !== 'granted' || !(isSetUp || access.live.hasSecondFactor)) {
      return reply.redirect(frame.href('/login'), 303)
    }
    if (isSetUp && !deps.canSetUp()) return sendUnavailable(reply)
    const { user, hasSecondFactor } = access.live
    const form = factorFormOf(request, kind, hasSecondFactor)
    const state = { path, email: user.email, csrf: csrfOf(request) }
    return sendPage(reply, factorPage(frame, form, state))
  }
}

/** The form to show. After a refusal, `hasSecondFactor` is whether the form has asked for a code of it. */
export function factorFormOf(
  request: FastifyRequest,
  kind: Kind,
  hasSecondFactor: boolean,
): FactorForm {
  if (kind === 'remove-totp') return { kind: 'turn-off' }
  if (kind === 'new-recovery-codes') return { kind: 'new-codes' }
  const secret = secretOf(request)
  if (formOf(request)['new-password'] !== undefined) return { kind: 'set-up-both', secret }
  return { kind: hasSecondFactor ? 'replace' : 'set-up', secret }
}

/** After a refusal it stays the same, or the app would have to scan another one. */
export function secretOf(request: FastifyRequest): string {
  const sent = parseSecret(formOf(request).secret ?? '')
  return sent ? toBase32(sent) : makeSecret()
}

/** A request line may name a host too: the form must not be sent there. */
export function pathOf({ url }: FastifyRequest): string {
  return /\/login\/[^?]*/.exec(url)?.[0] ?? ''
}

export function factorFormRoute(deps: FactorDeps, kind: Kind) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const shown = cookieOfForm(request)
    if (shown.kind === 'cross-site') return sendDenied(request, reply, shown)
    const { email = '', password = '', otp, secret = '', ...form } = formOf(request)
    const newPassword = form['new-password']
    const newOtp = form['new-otp'] ?? ''
    const isSetUp = kind === 'set-totp'
    const fields = missingIn({ email, password, otp, newPassword, ...(isSetUp && { newOtp }) })
    if (fields.length > 0) return refuse(request, reply, 'VALIDATION_ERROR', { fields })
    const change = {
      ...{ email, password, otp, newPassword },
      factorRequest: isSetUp ? { kind, secret, newOtp } : { kind },
    }
    return changeSecondFactor(deps, request, reply, change, (reply, outcome) =>
      sendChanged(deps, request, reply, outcome),
    )
  }
}

function sendChanged(
  { page, sessions }: FactorDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  { user, secondFactor: { recoveryCodes: codes, change } }: LoggedIn,
) {
  if (codes === null) return redirectDone(page, request, reply, 'turned-off')
  const isReplaced = formOf(request).otp !== undefined
  const said =
    change === 'new-recovery-codes' ? 'newCodesMade' : isReplaced ? 'appReplaced' : 'turnedOn'
  // In another language there would be no codes.
  const frame = { ...frameOf(page, request, ['prompt', 'after']), others: [] }
  const { host } = new URL(sessions.tokens.issuer)
  const made = { email: user.email, host, at: sessions.clock() }
  return sendPage(reply, recoveryCodesPage(frame, codes, frame.text(said), made))
}
