// The pages with a form: the login, and the change of the password, which is a login too.
import { PASSWORD_MIN_CHARACTERS } from '../../login/password-rules.ts'
import { type Html, html, type Value } from './html.ts'
import { type Frame, type Notice, noticeBox, toDocument } from './layout.ts'
import type { TextKey } from './texts.ts'

type FieldName = 'email' | 'password' | 'new-password'

export type FormState = {
  email?: string
  notice?: Notice | null
  /** What is wrong with a field. */
  errors?: Partial<Record<FieldName, string>>
  /** For how long the service refuses further attempts. */
  waitSeconds?: number | undefined
  /** The host of the application to go on to. */
  host?: string | null
}

export function loginPage(frame: Frame, state: FormState): string {
  const { text, href } = frame
  const { host } = state
  const main = html`<form id="form" method="post" action="${href('/login')}">
        <div class="head">
          <h1>${text('loginTitle')}</h1>
          ${host && html`<p id="destination">${text('destination', { host })}</p>`}
        </div>
        ${noticeBox(state.notice)}
        ${emailField(frame, state, false)}
        ${passwordField(frame, state, 'password', 'password', html`minlength="${PASSWORD_MIN_CHARACTERS}" autocomplete="current-password"`)}
        ${submitButton(frame, state, 'log-in', 'logIn', 'loggingIn')}
        <p class="foot" id="help" dir="auto">${help(frame)}</p>
      </form>`
  return toDocument(frame, { title: text('loginTitle'), main, isError: isError(state) })
}

type ChangeState = FormState & {
  /** Null without a session cookie. */
  csrf: string | null
  /** The email is that of a user that has logged in, or has just sent a temporary password. */
  isEmailKnown: boolean
  isForced?: boolean
}

export function passwordPage(frame: Frame, state: ChangeState): string {
  const { page, text, href } = frame
  const { csrf, isEmailKnown, isForced } = state
  const title = text(isForced ? 'choosePassword' : 'changePassword')
  const min = page.passwordMinLength
  const main = html`<form id="form" method="post" action="${href('/login/password')}">
        <div class="head"><h1 id="title" tabindex="-1"${focus(state, 'title')}>${title}</h1></div>
        ${noticeBox(state.notice)}
        ${csrf && html`<input type="hidden" name="csrf" value="${csrf}">`}
        ${isEmailKnown && html`<input type="hidden" name="known" value="1">`}
        ${emailField(frame, state, isEmailKnown)}
        ${passwordField(frame, state, 'password', isForced ? 'temporaryPassword' : 'currentPassword', html`minlength="${PASSWORD_MIN_CHARACTERS}" autocomplete="current-password"`)}
        ${passwordField(frame, state, 'new-password', 'newPassword', html`minlength="${min}" autocomplete="new-password"`)}
        ${submitButton(frame, state, 'save', 'savePassword', 'savingPassword')}
        <a id="cancel" class="button" href="${href('/login')}">${text('cancel')}</a>
        ${!isEmailKnown && html`<p class="foot" id="help" dir="auto">${help(frame)}</p>`}
      </form>`
  return toDocument(frame, { title, main, isError: isError(state) })
}

function isError({ notice, errors = {} }: FormState): boolean {
  return notice?.kind === 'error' || Object.keys(errors).length > 0
}

function help({ page, text }: Frame): Value {
  const { helpUrl, helpText } = page
  if (helpUrl === null) return helpText ?? text('help')
  return html`<a href="${helpUrl}">${helpText ?? text('helpLink')}</a>`
}

/**
 * The first field with an error has the focus; without an error and a notice, the title of a change, which screen
 * readers would not read otherwise, or the first empty field of a login.
 */
function focus(state: FormState, name: FieldName | 'title'): Value {
  const { email = '', notice, errors = {} } = state
  const wrong = (['email', 'password', 'new-password'] as const).find(field => errors[field])
  const isChange = 'isEmailKnown' in state
  const first = notice ? null : isChange ? 'title' : email === '' ? 'email' : 'password'
  return name === (wrong ?? first) && html` autofocus`
}

/** aria-required and not required: with that, an empty form would be invalid before anything is typed. */
function emailField(frame: Frame, state: FormState, isKnown: boolean): Html {
  const { email = '', errors } = state
  return html`<div>
          <label for="email">${frame.text('email')}</label>
          <input id="email" name="email" value="${email}" inputmode="email" autocomplete="username"
            autocapitalize="none" autocorrect="off" spellcheck="false" maxlength="254" pattern="\\s*[^\\s@]+@[^\\s@]+\\s*"
            enterkeyhint="next" aria-required="true" aria-describedby="email-error" aria-invalid="${String(Boolean(errors?.email))}"${isKnown && html` readonly`}${focus(state, 'email')}>
          <p id="email-error" class="error" aria-live="polite" data-empty="${frame.text('emailInvalid')}" data-wrong="${frame.text('emailInvalid')}">${errors?.email}</p>
        </div>`
}

function passwordField(
  { page, text }: Frame,
  state: FormState,
  name: 'password' | 'new-password',
  label: TextKey,
  attributes: Html,
): Html {
  const error = state.errors?.[name]
  const min = page.passwordMinLength
  const isNew = name === 'new-password'
  const show = text(isNew ? 'showNewPassword' : 'showPassword')
  const wrong = isNew ? text('newPasswordShort', { min }) : text('passwordShort')
  const empty = isNew ? wrong : text('passwordMissing')
  return html`<div>
          <div class="label-row">
            <label for="${name}">${text(label)}</label>
            <span id="${name}-caps-lock" class="caps-lock" aria-live="polite" data-text="${text('capsLock')}"></span>
          </div>
          <div class="with-button">
            <input id="${name}" name="${name}" type="password" ${attributes} enterkeyhint="go" aria-required="true"
              aria-describedby="${name}-error${isNew && ' new-password-hint'}" aria-invalid="${String(Boolean(error))}"${focus(state, name)}>
            <button class="reveal" type="button" aria-pressed="false" aria-controls="${name}" aria-label="${show}" title="${show}" hidden>
              <svg viewBox="0 0 24 24" aria-hidden="true">
                <path d="M2 12s3.6-6.5 10-6.5S22 12 22 12s-3.6 6.5-10 6.5S2 12 2 12Z"/>
                <circle cx="12" cy="12" r="3"/>
                <path class="strike" d="M4 20 20 4"/>
              </svg>
            </button>
          </div>
          <p id="${name}-error" class="error" aria-live="polite" data-empty="${empty}" data-wrong="${wrong}">${error}</p>
          ${isNew && html`<p id="new-password-hint" class="hint">${text('newPasswordHint', { min })}</p>`}
        </div>`
}

/** The script counts a wait down; without it, the service refuses once more. */
function submitButton(
  { text }: Frame,
  { waitSeconds }: FormState,
  id: string,
  label: TextKey,
  busy: TextKey,
): Html {
  const wait =
    waitSeconds !== undefined &&
    html` data-wait="${waitSeconds}" data-waiting="${text('countdown', { time: '{time}' })}" data-over="${text('tryAgainNow')}"`
  return html`<button id="${id}" class="button primary" data-busy="${text(busy)}"${wait}><span class="spinner"></span><span>${text(label)}</span></button>`
}
