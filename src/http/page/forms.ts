// The pages with a form: the login, and the change of the password, which is a login too.
import {
  emailField,
  type FormState,
  focus,
  isError,
  passwordField,
  submitButton,
} from './fields.ts'
import { html, type Value } from './html.ts'
import { type Frame, noticeBox, toDocument } from './layout.ts'
import { type OtpField, otpField } from './otp-fields.ts'

type LoginState = FormState & {
  otp: OtpField
  /** The host of the application to go on to. */
  host: string | null
}

export function loginPage(frame: Frame, state: LoginState): string {
  const { text, href } = frame
  const { email, host } = state
  const main = html`<form id="form" method="post" action="${href('/login')}">
        <div class="head">
          <h1>${text('loginTitle')}</h1>
          ${host && html`<p id="destination">${text('destination', { host })}</p>`}
        </div>
        ${noticeBox(state.notice)}
        ${emailField(frame, state, { isFirst: !email })}
        ${passwordField(frame, state, 'password', 'password', Boolean(email))}
        ${otpField(frame, state, state.otp)}
        ${submitButton(frame, state, 'log-in', 'logIn', 'loggingIn')}
        <p class="foot" id="help" dir="auto">${help(frame)}</p>
      </form>`
  return toDocument(frame, { title: text('loginTitle'), main, isError: isError(state) })
}

type ChangeState = FormState & {
  otp: OtpField
  /** Null without a session cookie. */
  csrf: string | null
  /** The email is that of a user that has logged in, or has just sent a temporary password. */
  isEmailKnown: boolean
  isForced?: boolean
}

export function passwordPage(frame: Frame, state: ChangeState): string {
  const { text, href } = frame
  const { csrf, isEmailKnown, isForced } = state
  const title = text(isForced ? 'choosePassword' : 'changePassword')
  const main = html`<form id="form" method="post" action="${href('/login/password')}">
        <div class="head"><h1 id="title" tabindex="-1"${focus(state, 'title')}>${title}</h1></div>
        ${noticeBox(state.notice)}
        ${csrf && html`<input type="hidden" name="csrf" value="${csrf}">`}
        ${isEmailKnown && html`<input type="hidden" name="known" value="1">`}
        ${emailField(frame, state, { isKnown: isEmailKnown })}
        ${passwordField(frame, state, 'password', isForced ? 'temporaryPassword' : 'currentPassword')}
        ${passwordField(frame, state, 'new-password', 'newPassword')}
        ${otpField(frame, state, state.otp)}
        ${submitButton(frame, state, 'save', 'savePassword', 'savingPassword')}
        <a id="cancel" class="button" href="${href('/login')}">${text('cancel')}</a>
        ${!isEmailKnown && html`<p class="foot" id="help" dir="auto">${help(frame)}</p>`}
      </form>`
  return toDocument(frame, { title, main, isError: isError(state) })
}

function help({ page, text }: Frame): Value {
  const { helpUrl, helpText } = page
  if (helpUrl === null) return helpText ?? text('help')
  return html`<a href="${helpUrl}">${helpText ?? text('helpLink')}</a>`
}
