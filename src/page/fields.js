// The fields of the form: what is checked before they are sent, and their errors.
import { announce, byId, text } from './dom.js'
import { isLongEnough, newPassword } from './new-password-field.js'
import { password } from './password-field.js'

/**
 * @typedef {import('./dom.js').TextKey} TextKey
 * @typedef {{ input: HTMLInputElement, message: TextKey }} FieldError
 */

const PASSWORD_MIN_CHARACTERS = 8

export const email = byId('email', HTMLInputElement)

/** @type {(FieldError & { names: string[], isRight: () => boolean })[]} with the service's names of the fields */
const CHECKS = [
  {
    names: ['email'],
    input: email,
    message: 'emailInvalid',
    isRight: () => /^[^\s@]+@[^\s@]+$/.test(email.value.trim()),
  },
  {
    names: ['password', 'currentPassword'],
    input: password,
    message: 'passwordShort',
    isRight: () => [...password.value].length >= PASSWORD_MIN_CHARACTERS,
  },
  {
    names: ['newPassword'],
    input: newPassword,
    message: 'newPasswordShort',
    isRight: isLongEnough,
  },
]

/** @type {Record<string, TextKey>} by the reason for which the service refuses a new password */
const FLAWS = {
  too_short: 'newPasswordShort',
  too_long: 'newPasswordLong',
  too_common: 'newPasswordCommon',
  personal: 'newPasswordPersonal',
  unchanged: 'newPasswordUnchanged',
}

const checks = () => CHECKS.filter(({ input }) => input.isConnected)

export function startFields() {
  for (const [index, { input, isRight }] of CHECKS.entries()) {
    // While the user types, an error disappears once it is corrected, but no new one appears.
    input.addEventListener('input', () => {
      if (input.getAttribute('aria-invalid') === 'true' && isRight()) mark(input, '')
    })
    // Enter leads to the next field while that is empty. The key is labelled "next" on phones.
    input.addEventListener('keydown', event => {
      const next = CHECKS[index + 1]?.input
      if (event.key !== 'Enter' || !next?.isConnected || next.value) return
      event.preventDefault()
      next.focus()
    })
  }
}

/** False if a field is wrong; its error is shown then. */
export function checkFields() {
  const wrong = checks().filter(({ isRight }) => !isRight())
  showErrors(wrong)
  return wrong.length === 0
}

/**
 * Shows errors at the fields that the service names. False if the page has no text for any.
 * @param {import('./api.js').Failure | null} failure
 */
export function showNamedErrors(failure) {
  const named = checks().filter(({ names }) => names.some(name => failure?.fields?.includes(name)))
  const errors = named.flatMap(({ input, message }) => {
    const reason = input === newPassword ? FLAWS[failure?.reason ?? ''] : message
    return reason ? { input, message: reason } : []
  })
  showErrors(errors)
  return errors.length > 0
}

export function clearErrors() {
  for (const { input } of checks()) mark(input, '')
}

/**
 * Focuses the first. The errors are announced too: the focus may be there already.
 * @param {FieldError[]} errors
 */
function showErrors(errors) {
  clearErrors()
  announce(errors.map(({ input, message }) => mark(input, message)).join(' '))
  errors[0]?.input.focus()
}

/**
 * Returns the sentence that is shown.
 * @param {HTMLInputElement} input
 * @param {TextKey | ''} message
 */
function mark(input, message) {
  const sentence = message && text(message, { min: newPassword.minLength })
  input.setAttribute('aria-invalid', String(message !== ''))
  byId(`${input.id}-error`, HTMLElement).textContent = sentence
  return sentence
}
