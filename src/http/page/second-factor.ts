// The forms that change the second step: setting up, replacing or removing the authenticator app, and new recovery codes.
// Each is a login too: it asks for the password, and for a code of the second step that its user has.
import {
  emailField,
  type FormState,
  focus,
  isError,
  passwordField,
  submitButton,
} from './fields.ts'
import { type Html, html } from './html.ts'
import { type Frame, noticeBox, toDocument } from './layout.ts'
import { newOtpField, otpField } from './otp-fields.ts'
import { qrCode, toOtpAuthUri } from './qr-code.ts'
import type { TextKey } from './texts.ts'

/** `set-up-both`: together with a password in place of a temporary one. */
type SetUpForm = { kind: 'set-up' | 'set-up-both' | 'replace'; secret: string }
export type FactorForm = SetUpForm | { kind: 'turn-off' | 'new-codes' }

type State = FormState & {
  /** Where the form is sent to. */
  path: string
  /** It is always known: that of a session, or one that was sent with its right password. */
  email: string
  /** Null without a session cookie. */
  csrf: string | null
}

type Words = [title: TextKey, intro: TextKey | null, id: string, button: TextKey, busy: TextKey]

const WORDS: Record<FactorForm['kind'], Words> = {
  'set-up': ['setUpTitle', 'setUpIntro', 'turn-on', 'turnOn', 'turningOn'],
  'set-up-both': ['setUpBothTitle', null, 'turn-on', 'saveBoth', 'turningOn'],
  replace: ['replaceTitle', 'replaceIntro', 'turn-on', 'replaceApp', 'replacing'],
  'turn-off': ['turnOffTitle', 'turnOffIntro', 'turn-off', 'turnOff', 'turningOff'],
  'new-codes': ['newCodesTitle', 'newCodesIntro', 'make-codes', 'makeCodes', 'makingCodes'],
}

export function factorPage(frame: Frame, form: FactorForm, state: State): string {
  const { text, href } = frame
  const [title, intro, id, button, busy] = WORDS[form.kind]
  const main = html`<form id="form" method="post" action="${href(state.path)}">
        <div class="head">
          <h1 id="title" tabindex="-1"${focus(state, 'title')}>${text(title)}</h1>
          ${intro && html`<p>${text(intro)}</p>`}
        </div>
        ${noticeBox(state.notice)}
        ${state.csrf && html`<input type="hidden" name="csrf" value="${state.csrf}">`}
        <input type="hidden" name="known" value="1">
        ${fieldsOf(frame, form, state)}
        ${submitButton(frame, state, id, button, busy)}
        <a id="cancel" class="button" href="${href('/login')}">${text('cancel')}</a>
      </form>`
  return toDocument(frame, { title: text(title), main, isError: isError(state) })
}

function fieldsOf(frame: Frame, form: FactorForm, state: State): Html[] {
  const email = emailField(frame, state, { isKnown: true })
  const password = passwordField(frame, state, 'password', 'currentPassword')
  switch (form.kind) {
    case 'turn-off':
    case 'new-codes':
      return [email, password, otpField(frame, state, 'required')]
    case 'set-up': {
      const confirm = [email, password, newOtpField(frame, state, false)]
      return steps(frame, ['stepScan', scan(frame, form, state)], ['stepConfirm', confirm])
    }
    case 'set-up-both': {
      const temporary = passwordField(frame, state, 'password', 'temporaryPassword')
      const chosen = passwordField(frame, state, 'new-password', 'newPassword')
      return steps(
        frame,
        ['stepPassword', [email, temporary, chosen]],
        ['stepScan', scan(frame, form, state)],
        ['stepCode', [newOtpField(frame, state, false)]],
      )
    }
    case 'replace':
      return steps(
        frame,
        ['stepScanNew', scan(frame, form, state)],
        ['stepCode', [newOtpField(frame, state, true)]],
        ['stepConfirmNow', [email, password, otpField(frame, state, 'replaced')]],
      )
  }
}

function steps({ text }: Frame, ...all: [title: TextKey, fields: Html[]][]): Html[] {
  return all.map(
    ([title, fields], index) =>
      html`<h2 class="step"><span class="number">${index + 1}</span> <span>${text(title)}</span></h2>
        ${fields}`,
  )
}

/**
 * The secret as a picture, as a link for an app on the same device, which cannot scan it, and in groups for typing. The
 * form has it too, so it stays after a refusal.
 */
function scan({ page, text }: Frame, { kind, secret }: SetUpForm, { email }: State): Html[] {
  const uri = toOtpAuthUri(page.brandName, email, secret)
  const groups = secret.match(/.{1,4}/g) ?? []
  return [
    html`${kind !== 'replace' && html`<p class="detail">${text('stepScanHint')}</p>`}
        <input type="hidden" name="secret" value="${secret}">
        <a class="button open-app" href="${uri}">${text('openInApp')}</a>
        ${qrCode(uri, text('qrCode'))}
        <p id="key-label" class="caption">${text('key')}</p>
        <div class="key label-row">
          <code id="key" translate="no" dir="ltr" role="group" aria-labelledby="key-label">${groups.map(group => html`<span>${group}</span> `)}</code>
          <button type="button" data-copied="${text('copied')}" hidden>${text('copy')}</button>
          <span class="said" aria-live="polite"></span>
        </div>
        `,
  ]
}
