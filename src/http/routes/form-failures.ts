// Failures as pages: the form again with the typed email, and what was wrong. No password is ever sent back.
import type { IncomingMessage } from 'node:http'
import { parse } from 'node:querystring'
import type { FastifyRequest } from 'fastify'
import type { PasswordFlaw } from '../../login/password-rules.ts'
import { type Details, type FailureCode, type ShowFailure, statusOf } from '../answer/envelope.ts'
import type { RawPage } from '../connection/protocol-errors.ts'
import type { FormState } from '../page/fields.ts'
import { loginPage, passwordPage } from '../page/forms.ts'
import { type Frame, failurePage, frameFor, type Notice } from '../page/layout.ts'
import type { Page } from '../page/page.ts'
import type { TextKey } from '../page/texts.ts'
import { formOf } from '../request/body.ts'
import { destinationOf } from './destination.ts'
import { csrfOf, frameOf, PAGE_HEADERS, type PageDeps, sendPage } from './page.ts'

const TEXTS: Partial<Record<FailureCode, TextKey>> = {
  INVALID_CREDENTIALS: 'invalidCredentials',
  CSRF_FAILED: 'notVerified',
  REQUEST_TIMEOUT: 'tookTooLong',
  TOO_MANY_ATTEMPTS: 'tooManyAttempts',
  TOO_MANY_REQUESTS: 'serviceBusy',
  SERVICE_UNAVAILABLE: 'serviceBusy',
}

const FLAWS: Record<PasswordFlaw, TextKey> = {
  too_short: 'newPasswordShort',
  too_long: 'newPasswordLong',
  too_common: 'newPasswordCommon',
  personal: 'newPasswordPersonal',
  unchanged: 'newPasswordUnchanged',
}

export function showLoginFailure({ page, destinations }: PageDeps): ShowFailure {
  return (request, reply, code, details) => {
    const frame = frameOf(page, request)
    const state = stateOf(frame, request, code, details)
    if (code === 'PASSWORD_CHANGE_REQUIRED') {
      const notice: Notice = { kind: 'information', text: frame.text('temporary') }
      const change = { notice, csrf: csrfOf(request), isEmailKnown: true, isForced: true }
      return sendPage(reply, passwordPage(frame, { ...state, ...change }))
    }
    const asked = destinationOf(request, destinations)
    const host = asked.kind === 'accepted' ? asked.host : null
    return sendPage(reply, loginPage(frame, { ...state, host }))
  }
}

export function showPasswordFailure(page: Page): ShowFailure {
  return (request, reply, code, details) => {
    const frame = frameOf(page, request)
    const isEmailKnown = formOf(request).known === '1'
    const isWrong = isEmailKnown && code === 'INVALID_CREDENTIALS'
    const state = {
      ...stateOf(frame, request, code, details),
      ...(isWrong && { notice: noticeOf(frame, code, details, 'currentPasswordWrong') }),
    }
    return sendPage(reply, passwordPage(frame, { ...state, csrf: csrfOf(request), isEmailKnown }))
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
    if (method !== 'POST' || !/^\/login(\/|$)/.test(path)) return null
    const frame = frameFor(page, parse(query ?? ''), headers['accept-language'])
    return {
      headers: { ...PAGE_HEADERS, 'Content-Type': 'text/html; charset=utf-8' },
      body: failurePage(frame, noticeOf(frame, 'REQUEST_TIMEOUT', {})),
    }
  }
}

/** The errors stand at the fields that the failure names; without any, the notice says what is wrong. */
function stateOf(frame: Frame, request: FastifyRequest, code: FailureCode, details: Details) {
  const { text, page } = frame
  const { fields = [], reason, retryAfterSeconds } = details
  const flaw = text(FLAWS[reason as PasswordFlaw] ?? 'newPasswordShort', {
    min: page.passwordMinLength,
  })
  const isMissing = fields.includes('password') || fields.includes('currentPassword')
  const errors: FormState['errors'] = {
    ...(fields.includes('email') && { email: text('emailInvalid') }),
    ...(isMissing && { password: text('passwordMissing') }),
    ...(fields.includes('newPassword') && { 'new-password': flaw }),
  }
  return {
    email: formOf(request).email ?? '',
    otp: 'none' as const,
    errors,
    notice: fields.length > 0 ? null : noticeOf(frame, code, details),
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
