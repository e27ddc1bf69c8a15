// The fields for codes: of the second step that a user has, and of an authenticator app that is being set up; and the button
// for a passkey in place of a code.
import { type FormState, focus } from './fields.ts'
import { forPasskeys, iconOf } from './fragments.ts'
import { type Html, html } from './html.ts'
import type { Frame } from './layout.ts'

/**
 * How a form asks for a code of the second step: not at all; below "I use two-step login", which is closed, open, or open
 * with the hint that the field may stay empty; always, if its user has a second step; the same, of the app that is replaced,
 * or before a passkey is added.
 */
export type OtpField = 'none' | 'closed' | 'open' | 'open-hint' | 'required' | 'replaced' | 'adding'

export function otpField(frame: Frame, state: FormState, kind: OtpField): Html {
  if (kind === 'none') return html``
  if (isRequired(kind)) return proof(frame, state, kind)
  // A closed field is sent too: a code that a password manager has filled in counts.
  return html`<details id="two-steps"${kind !== 'closed' && html` open`}>
          <summary>${frame.text('usesTwoSteps')}</summary>
          ${proof(frame, state, kind)}
        </details>`
}

const isRequired = (kind: OtpField) => ['required', 'replaced', 'adding'].includes(kind)

/**
 * One field for both kinds of codes: of two, password managers fill in the wrong one. The number pads of phones have no
 * letters, so the service asks for none; the script does, and has a switch.
 */
function proof(frame: Frame, state: FormState, kind: OtpField): Html {
  const { text } = frame
  const error = state.errors?.otp
  const isReplaced = kind === 'replaced'
  const isDemanded = isRequired(kind)
  const more = kind === 'open-hint' ? ` ${text('otpUnused')}` : ''
  const label = text(isReplaced ? 'otpNow' : 'otp')
  const hint = text(isReplaced ? 'otpNowHint' : 'otpHint')
  const appHint = text(isReplaced ? 'otpNowAppHint' : 'otpAppHint')
  return html`<div data-proof>
            <label for="otp">${label}</label>
            <input id="otp" name="otp" autocomplete="one-time-code" autocapitalize="none" autocorrect="off" spellcheck="false"
              maxlength="64" dir="ltr" enterkeyhint="go"${isDemanded && html` aria-required="true"`} aria-describedby="otp-error otp-hint" aria-invalid="${String(Boolean(error))}"
              data-label="${label}" data-hint="${appHint}${more}"${focus(state, 'otp')}>
            <p id="otp-error" class="error" aria-live="polite"${isDemanded && html` data-empty="${text('otpMissing')}"`}>${error}</p>
            <p id="otp-hint" class="hint">${hint}${more}</p>
            <button class="switch" type="button" aria-controls="otp" data-label="${text('recoveryCode')}" data-hint="${text('recoveryCodeHint')}${more}" data-back="${text('useAppCode')}" hidden>${text('useRecoveryCode')}</button>
            ${(state.hasPasskey || !isDemanded) && passkeyButton(frame, kind)}
          </div>`
}

/** The script fills the field in, and sends the form. */
function passkeyButton(frame: Frame, kind: OtpField): Html {
  const { text } = frame
  const label = text(kind === 'adding' ? 'useOtherPasskey' : 'usePasskey')
  return html`<input type="hidden" name="passkey" value="">
            <button id="use-passkey" type="button" data-busy="${text('passkeyBusy')}"${forPasskeys(frame)}>${iconOf('key')}<span>${label}</span></button>
            <p id="passkey-error" class="error" aria-live="polite" data-failed="${text('passkeyFailed')}"></p>`
}

/** Beside the field for the old app's code, password managers must leave it alone: they would fill in the old code. */
export function newOtpField({ text }: Frame, state: FormState, isReplacement: boolean): Html {
  const error = state.errors?.['new-otp']
  const invalid = text('newOtpInvalid')
  return html`<div>
          <label for="new-otp">${text(isReplacement ? 'newOtpReplaced' : 'newOtp')}</label>
          <input id="new-otp" name="new-otp" inputmode="numeric" autocomplete="${isReplacement ? 'off' : 'one-time-code'}" pattern="\\s*(\\d\\s*){6}" maxlength="16" dir="ltr"
            enterkeyhint="go" aria-required="true" aria-describedby="new-otp-error new-otp-hint" aria-invalid="${String(Boolean(error))}"${focus(state, 'new-otp')}>
          <p id="new-otp-error" class="error" aria-live="polite" data-empty="${invalid}" data-wrong="${invalid}">${error}</p>
          <p id="new-otp-hint" class="hint">${text('newOtpHint')}</p>
        </div>`
}
