// Failures as pages: the form again with the typed email, and what was wrong. No password is ever sent back.
import type { IncomingMessage } from 'node:http'
import { parse } from 'node:querystring'
import type { FastifyRequest } from 'fastify'
import type { FactorFlaw, FactorRequest } from '../../login/attempt.ts'
import type { PasswordFlaw } from '../../login/password-rules.ts'
import { type Details, type FailureCode, type ShowFailure, statusOf } from '../answer/envelope.ts'
import type { RawPage } from '../connection/protocol-errors.ts'
import type { FormState } from '../page/fields.ts'
import { loginPage, passwordPage } from '../page/forms.ts'
import { type Frame, failurePage, frameFor, type Notice } from '../page/layout.ts'
import type { Page } from '../page/page.ts'
import { type FactorForm, factorPage } from '../page/second-factor.ts'
import type { TextKey } from '../page/texts.ts'
import { formOf } from '../request/body.ts'
import { destinationOf } from './destination.ts'
import { pathOf, sentForm } from './factor-forms.ts'
import {
  csrfOf,
  frameOf,
  information,
  otpFieldOf,
  PAGE_HEADERS,
  type PageDeps,
  sendPage,
} from './page.ts'

/** Without and with a field for the second step. */
const REFUSALS = {
  typed: ['invalidCredentials', 'invalidProof'],
  known: ['currentPasswordWrong', 'currentProofWrong'],
} as const

const TEXTS: Partial<Record<FailureCode, TextKey>> = {
  CSRF_FAILED: 'notVerified',
  REQUEST_TIMEOUT: 'tookTooLong',
  TOO_MANY_ATTEMPTS: 'tooManyAttempts',
  TOO_MANY_REQUESTS: 'serviceBusy',
  SECOND_FACTOR_UNAVAILABLE: 'twoStepsUnavailable',
  SERVICE_UNAVAILABLE: 'serviceBusy',
}

const SET_UP = '/login/second-factor'

const FLAWS: Record<PasswordFlaw, TextKey> = {
  too_short: 'newPasswordShort',
  too_long: 'newPasswordLong',
  too_common: 'newPasswordCommon',
  personal: 'newPasswordPersonal',
  unchanged: 'newPasswordUnchanged',
}

const REASONS: Record<string, TextKey> = {
  demanded: 'lastDemanded',
  passkey_known: 'passkeyExists',
  too_many_passkeys: 'passkeysFull',
} satisfies Partial<Record<FactorFlaw['reason'], TextKey>>

export function showLoginFailure(deps: PageDeps): ShowFailure {
  return showFormFailure(deps, (frame, request, state) => {
    const asked = destinationOf(request, deps.config)
    return loginPage(frame, { ...state, host: asked.kind === 'accepted' ? asked.host : null })
  })
}

export function showPasswordFailure(deps: PageDeps): ShowFailure {
  return showFormFailure(deps, (frame, _, state) => passwordPage(frame, state))
}

export function showFactorFailure(deps: PageDeps, kind: FactorRequest['kind']): ShowFailure {
  return showFormFailure(deps, (frame, request, state) => {
    const form = sentForm(request, kind)
    return factorPage(frame, form, { ...state, path: pathOf(request) })
  })
}

type ShownState = Parameters<typeof passwordPage>[1] & { email: string }

/** The form again, or the one to which a right password leads that is good for a change only. */
function showFormFailure(
  deps: PageDeps,
  toPage: (frame: Frame, request: FastifyRequest, state: ShownState) => string,
): ShowFailure {
  return (request, reply, code, details) => {
    const frame = frameOf(deps.page, request)
    const { known, otp: typed, passkey } = formOf(request)
    const isEmailKnown = known === '1'
    const otp = otpFieldOf(deps, request, isEmailKnown ? typed !== undefined : null)
    const refusal = REFUSALS[isEmailKnown ? 'known' : 'typed'][otp === 'none' ? 0 : 1]
    const hasPasskey = passkey !== undefined
    const shown = { otp, hasPasskey, csrf: csrfOf(request), isEmailKnown }
    const state = { ...stateOf(frame, request, code, details, refusal), ...shown }
    const { isFactorRequired = code === 'SECOND_FACTOR_REQUIRED' } = details
    const isForced = code === 'PASSWORD_CHANGE_REQUIRED'
    if (isFactorRequired) {
      const view: FactorForm['view'] = isForced ? 'set-both' : 'set-totp'
      const form = { ...sentForm(request, 'set-totp'), view, userId: details.userId ?? '' }
      const notice = information(frame.text(isForced ? 'bothDemanded' : 'twoStepsDemanded'))
      return sendPage(reply, factorPage(frame, form, { ...state, notice, path: SET_UP }))
    }
    if (!isForced) return sendPage(reply, toPage(frame, request, state))
    const notice = information(frame.text('temporary'))
    // A code that came with the temporary password was not used up, and is asked for once more.
    const change = {
      notice,
      otp: details.hasSecondFactor ? 'required' : 'none',
      isEmailKnown: true,
      isForced,
    } as const
    return sendPage(reply, passwordPage(frame, { ...state, ...change }))
  }
}

export function showPageFailure(page: Page): ShowFailure {
  return (request, reply, code, details) => {
    const frame = frameOf(page, request)
    return sendPage(reply, failurePage(frame, noticeOf(frame, code, details)))
  }
}

/** For a form whose body did not arrive in time, which no route answers. */
export function toTimeoutPage(page: Page) {
  return ({ method, url = '', headers }: IncomingMessage): RawPage | null => {
    const [path = '', query] = url.split('?', 2)
    if (method !== 'POST' || !/^\/(login|console)(\/|$)/.test(path)) return null
    const frame = frameFor(page, parse(query ?? ''), headers['accept-language'])
    return {
      headers: { ...PAGE_HEADERS, 'Content-Type': 'text/html; charset=utf-8' },
      body: failurePage(frame, noticeOf(frame, 'REQUEST_TIMEOUT', {})),
    }
  }
}

/** The errors stand at the fields that the failure names; without any, the notice says what is wrong. */
function stateOf(
  frame: Frame,
  request: FastifyRequest,
  code: FailureCode,
  details: Details,
  refusal: TextKey,
) {
  const { text, page } = frame
  const { fields = [], reason, retryAfterSeconds } = details
  const flaw = text(FLAWS[reason as PasswordFlaw] ?? 'newPasswordShort', {
    min: page.passwordMinLength,
  })
  const errors: FormState['errors'] = {
    ...(fields.includes('name') && { name: text('passkeyNameMissing') }),
    ...(fields.includes('email') && { email: text('emailInvalid') }),
    ...(fields.includes('password') && { password: text('passwordMissing') }),
    ...(fields.includes('newPassword') && { 'new-password': flaw }),
    ...(fields.includes('newOtp') && {
      'new-otp': text(reason === 'wrong_code' ? 'newOtpWrong' : 'newOtpInvalid'),
    }),
    ...(fields.includes('otp') && { otp: text('otpMissing') }),
  }
  const notMade = reason ? 'passkeyNotMade' : 'passkeyScript'
  const own = REASONS[reason ?? ''] ?? (fields.includes('newPasskey') ? notMade : undefined)
  const key = code === 'INVALID_CREDENTIALS' ? refusal : own
  return {
    email: formOf(request).email ?? '',
    errors,
    notice: Object.keys(errors).length > 0 ? null : noticeOf(frame, code, details, key),
    waitSeconds: code === 'TOO_MANY_ATTEMPTS' ? retryAfterSeconds : undefined,
  }
}

function noticeOf(
  { text, toWait }: Frame,
  code: FailureCode,
  { retryAfterSeconds = 0 }: Details,
  key: TextKey = TEXTS[code] ?? (statusOf(code) < 500 ? 'notRead' : 'unexpected'),
): Notice {
  return { kind: 'error', text: text(key, { wait: toWait(retryAfterSeconds) }) }
}
