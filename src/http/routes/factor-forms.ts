// GET and POST /login/second-factor and below: the forms that set up, replace or remove a second factor, and make new
// recovery codes. They do the same as the operation of the API.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Factor } from '../../domain/second-factor.ts'
import type { FactorRequest } from '../../login/attempt.ts'
import { isSetUp } from '../../login/changes.ts'
import type { NewPasskey } from '../../login/passkey.ts'
import { makeSecret, parseSecret, toBase32 } from '../../login/totp.ts'
import { listOwnFactors } from '../../session/own-sessions.ts'
import { askingAgainPage } from '../page/layout.ts'
import { recoveryCodesPage } from '../page/recovery-codes.ts'
import { type FactorForm, factorPage, isFactorView } from '../page/second-factor.ts'
import type { TextKey } from '../page/texts.ts'
import { formOf } from '../request/body.ts'
import { refuse } from '../request/log.ts'
import { cookieOfForm, type FormDeps, missingIn, proofIn } from './forms.ts'
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
    const toLogin = () => reply.redirect(frame.href('/login'), 303)
    if (access.kind !== 'granted') return toLogin()
    const { user } = access.live
    const { factors } = await listOwnFactors(deps.sessions, access.live)
    const factor = factors.find(({ id }) => id === factorIdIn(request))
    const view = viewFor(kind, factors, factor)
    if (!view) return toLogin()
    if (isSetUp(kind) && !deps.canSetUp()) return sendUnavailable(reply)
    const exclude = factors.flatMap(({ credentialId }) => credentialId ?? []).join(' ')
    const own = { secret: makeSecret(), name: factor?.name ?? '', userId: user.id, exclude }
    const hasPasskey = exclude !== ''
    const state = { path, email: user.email, csrf: csrfOf(request), hasPasskey }
    return sendPage(reply, factorPage(frame, { ...own, view }, state))
  }
}

/** What a user with these factors is shown; null if there is nothing to change. */
function viewFor(kind: Kind, factors: Factor[], factor?: Factor): FactorForm['view'] | null {
  const isFirst = factors.length === 0
  const hasApp = factors.some(factor => factor.kind === 'totp')
  switch (kind) {
    case 'set-totp':
      return hasApp ? 'replace-totp' : isFirst ? kind : 'add-totp'
    case 'add-passkey':
      return isFirst ? 'first-passkey' : kind
    case 'remove':
      return factor ? (factors.length === 1 ? 'turn-off' : kind) : null
    case 'new-recovery-codes':
      return isFirst ? null : kind
  }
}

/** The form that was sent. Its secret stays the same, or the app would have to scan another one. */
export function sentForm(request: FastifyRequest, kind: Kind): FactorForm {
  const { form = '', secret = '', name = '', user: userId = '', exclude = '' } = formOf(request)
  const parsed = parseSecret(secret)
  return {
    view: isFactorView(form) ? form : kind,
    secret: parsed ? toBase32(parsed) : makeSecret(),
    ...{ name, userId, exclude },
  }
}

/** A request line may name a host too: the form must not be sent there. */
export function pathOf({ url }: FastifyRequest): string {
  return /\/login\/[^?]*/.exec(url)?.[0] ?? ''
}

const factorIdIn = ({ params }: FastifyRequest) =>
  (params as { factor?: string }).factor?.toLowerCase() ?? ''

export function factorFormRoute(deps: FactorDeps, kind: Kind) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const shown = cookieOfForm(request)
    if (shown.kind === 'cross-site') return sendDenied(request, reply, shown)
    const { email = '', password = '', name: typed, ...form } = formOf(request)
    if (kind === 'add-passkey' && typed === undefined) {
      // The button "Set up a passkey instead" sends none.
      const state = { path: pathOf(request), email, csrf: csrfOf(request) }
      return sendPage(
        reply,
        factorPage(frameOf(deps.page, request), sentForm(request, kind), state),
      )
    }
    const proof = proofIn(request)
    const newPassword = form['new-password']
    const newOtp = form['new-otp'] ?? ''
    const newPasskey = form['new-passkey'] ?? ''
    // One that was pasted may have line breaks.
    const name = [...(typed ?? '').replace(/[\s\p{Cc}]+/gu, ' ').trim()].slice(0, 100).join('')
    const fields = missingIn({
      ...{ email, password, newPassword, otp: proof.otp },
      ...(kind === 'set-totp' && { newOtp }),
      ...(kind === 'add-passkey' && { name, newPasskey }),
    })
    if (fields.length > 0) return refuse(request, reply, 'VALIDATION_ERROR', { fields })
    const requests: Record<Kind, FactorRequest> = {
      'set-totp': { kind: 'set-totp', secret: form.secret ?? '', newOtp },
      'add-passkey': { kind: 'add-passkey', passkey: newPasskeyIn(newPasskey, name) },
      remove: { kind: 'remove', id: factorIdIn(request) },
      'new-recovery-codes': { kind: 'new-recovery-codes' },
    }
    const change = { ...{ email, password, newPassword }, ...proof, factorRequest: requests[kind] }
    return changeSecondFactor(deps, request, reply, change, (reply, outcome) =>
      sendChanged(deps, request, reply, kind, outcome),
    )
  }
}

/** Joined like the parts of a passkey that is used. */
function newPasskeyIn(text: string, name: string): NewPasskey {
  const [id = '', publicKey = '', algorithm, clientDataJSON = '', authenticatorData = ''] =
    text.split('.')
  return { id, name, publicKey, algorithm: Number(algorithm), clientDataJSON, authenticatorData }
}

const SAID: Partial<Record<FactorForm['view'], TextKey>> = {
  'replace-totp': 'appReplaced',
  'add-totp': 'appAdded',
  'new-recovery-codes': 'newCodesMade',
}

function sendChanged(
  { page, sessions }: FactorDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  kind: Kind,
  { user, secondFactor: { recoveryCodes: codes, isOn } }: LoggedIn,
) {
  if (codes === null) {
    const removed = isOn ? 'removed' : 'turned-off'
    return redirectDone(page, request, reply, kind === 'remove' ? removed : 'passkey-added')
  }
  // In another language there would be no codes.
  const frame = { ...frameOf(page, request, ['prompt', 'after']), others: [] }
  const { host } = new URL(sessions.tokens.issuer)
  const made = { email: user.email, host, at: sessions.clock() }
  const said = frame.text(SAID[sentForm(request, kind).view] ?? 'turnedOn')
  return sendPage(reply, recoveryCodesPage(frame, codes, said, made))
}
