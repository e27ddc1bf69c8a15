// The fields and the button of the forms.
import { PASSWORD_MIN_CHARACTERS } from '../../login/password-rules.ts'
import { type Html, html, type Value } from './html.ts'
import type { Frame, Notice } from './layout.ts'
import type { TextKey } from './texts.ts'

const FIELDS = ['name', 'email', 'password', 'new-password', 'new-otp', 'otp'] as const
type FieldName = (typeof FIELDS)[number]

export type FormState = {
  email?: string
  notice?: Notice | null
  /** What is wrong with a field. */
  errors?: Partial<Record<FieldName, string>>
  /** Of a known user: whether a passkey can be used. */
  hasPasskey?: boolean
  /** For how long the service refuses further attempts. */
  waitSeconds?: number | undefined
}

export function isError({ notice, errors = {} }: FormState): boolean {
  return notice?.kind === 'error' || Object.keys(errors).length > 0
}

/**
 * The first field with an error has the focus. Without an error and a notice, it is what comes first: the first empty
 * field of a login, or the title of another form, which screen readers would not read otherwise.
 */
export function focus(
  { notice, errors = {} }: FormState,
  name: FieldName | 'title',
  isFirst = name === 'title',
): Value {
  const wrong = FIELDS.find(field => errors[field])
  return (wrong ? name === wrong : isFirst && !notice) && html` autofocus`
}

/** aria-required and not required: with that, an empty form would be invalid before anything is typed. */
export function emailField(
  { text }: Frame,
  state: FormState,
  { isKnown = false, isFirst = false } = {},
): Html {
  const { email = '', errors } = state
  return html`<div>
          <label for="email">${text('email')}</label>
          <input id="email" name="email" value="${email}" inputmode="email" autocomplete="username"
            autocapitalize="none" autocorrect="off" spellcheck="false" maxlength="254" pattern="\\s*[^\\s@]+@[^\\s@]+\\s*"
            enterkeyhint="next" aria-required="true" aria-describedby="email-error" aria-invalid="${String(Boolean(errors?.email))}"${isKnown && html` readonly`}${focus(state, 'email', isFirst)}>
          <p id="email-error" class="error" aria-live="polite" data-empty="${text('emailInvalid')}" data-wrong="${text('emailInvalid')}">${errors?.email}</p>
        </div>`
}

export function passwordField(
  { page, text }: Frame,
  state: FormState,
  name: 'password' | 'new-password',
  label: TextKey,
  isFirst = false,
): Html {
  const error = state.errors?.[name]
  const isNew = name === 'new-password'
  const min = isNew ? page.passwordMinLength : PASSWORD_MIN_CHARACTERS
  const show = text(isNew ? 'showNewPassword' : 'showPassword')
  const wrong = isNew ? text('newPasswordShort', { min }) : text('passwordShort')
  const empty = isNew ? wrong : text('passwordMissing')
  return html`<div>
          <div class="label-row">
            <label for="${name}">${text(label)}</label>
            <span id="${name}-caps-lock" class="caps-lock" aria-live="polite" data-text="${text('capsLock')}"></span>
          </div>
          <div class="with-button">
            <input id="${name}" name="${name}" type="password" minlength="${min}" autocomplete="${isNew ? 'new-password' : 'current-password'}" enterkeyhint="go" aria-required="true"
              aria-describedby="${name}-error${isNew && ' new-password-hint'}" aria-invalid="${String(Boolean(error))}"${focus(state, name, isFirst)}>
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
export function submitButton(
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
