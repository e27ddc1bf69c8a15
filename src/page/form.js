// The form: a login, or a change of the password, which is a login too.
import { adviceOn, byId, formTitle, say, show, text } from './dom.js'
import { checkFields, clearErrors, email, showNamedErrors, startFields } from './fields.js'
import { newPassword, newPasswordPart, toggleNewPassword } from './new-password-field.js'
import { hidePasswords, password, startPasswordField } from './password-field.js'
import { forgetUnconfirmed, sendChange, sendCredentials } from './send.js'
import {
  endWait,
  isSending,
  isWaiting,
  setLabels,
  setSending,
  startSubmitButton,
  startWait,
} from './submit-button.js'

/**
 * @typedef {import('./dom.js').TextKey} TextKey
 * @typedef {'login' | 'change' | 'forcedChange'} Purpose
 */

/** If a proxy has removed the Retry-After header of a 429. */
const WAIT_DEFAULT_SECONDS = 900

/** @type {Record<Purpose, { title: TextKey, password: TextKey, labels: [idle: TextKey, sending: TextKey] }>} */
const TEXTS = {
  login: { title: 'loginTitle', password: 'password', labels: ['logIn', 'loggingIn'] },
  change: {
    title: 'changePassword',
    password: 'currentPassword',
    labels: ['savePassword', 'savingPassword'],
  },
  // After a login with a temporary password, which stays in its field, unseen.
  forcedChange: {
    title: 'choosePassword',
    password: 'currentPassword',
    labels: ['savePassword', 'savingPassword'],
  },
}

const form = byId('form', HTMLFormElement)

let purpose = /** @type {Purpose} */ ('login')
/** Set by the user's own actions: a password manager may fill in the fields by itself. */
let isUsed = form.contains(document.activeElement)

/**
 * @param {(data: import('./api.js').Data, isChanged: boolean) => void} onLogin
 * @param {() => void} onCancel
 */
export function startForm(onLogin, onCancel) {
  form.addEventListener('submit', async event => {
    event.preventDefault()
    if (isSending() || !checkFields()) return
    hidePasswords()
    setSending(true)
    const sentEmail = email.value.trim()
    const answer = await send()
    if (answer.data?.user) {
      const isChanged = purpose !== 'login'
      // Stays busy until another view or another page is shown.
      clearForm()
      return onLogin(answer.data, isChanged)
    }
    setSending(false)
    react(answer, sentEmail)
  })
  for (const type of ['keydown', 'paste', 'pointerdown']) {
    form.addEventListener(type, () => {
      isUsed = true
    })
  }
  byId('cancel', HTMLButtonElement).addEventListener('click', () => {
    if (!isSending()) onCancel()
  })
  startFields()
  startPasswordField(form, byId('password-part', HTMLElement))
  startPasswordField(form, newPasswordPart)
  startSubmitButton()
}

/** @param {string} [sentence] why the form is shown again */
export function showForm(sentence = '') {
  setPurpose('login')
  setSending(false)
  show(form)
  if (isWaiting()) return
  say(sentence, 'information')
  // The user may have begun to type before the script was there.
  if (!form.contains(document.activeElement)) email.focus()
}

/** @param {string} [knownEmail] of the user that is logged in */
export function showChange(knownEmail = '') {
  setPurpose('change', knownEmail)
  setSending(false)
  show(form)
  if (isWaiting()) return
  say('')
  if (isUsed) return
  if (knownEmail) password.focus()
  else email.focus()
}

/**
 * @param {Purpose} next
 * @param {string} [knownEmail] is shown as text; password managers find it in its field
 */
function setPurpose(next, knownEmail = '') {
  purpose = next
  const texts = TEXTS[purpose]
  formTitle.textContent = text(texts.title)
  byId('password-label', HTMLElement).textContent = text(texts.password)
  setLabels(texts.labels)
  if (knownEmail) email.value = knownEmail
  byId('for-user', HTMLElement).textContent = knownEmail && text('forUser', { email: knownEmail })
  byId('email-part', HTMLElement).hidden = knownEmail !== ''
  for (const id of ['password-part', 'help']) {
    byId(id, HTMLElement).hidden = purpose === 'forcedChange'
  }
  toggleNewPassword(purpose !== 'login')
  byId('cancel', HTMLElement).hidden = purpose === 'login'
}

export function isFormShown() {
  return !form.hidden
}

/** True if the user fills it in, is logging in or must wait. A late answer must then not replace the form. */
export function isFormInUse() {
  return isSending() || isUsed || isWaiting()
}

/** Removes what was typed: no password must stay in the page after a login. */
export function clearForm() {
  form.reset()
  forgetUnconfirmed()
  endWait()
  isUsed = false
  say('')
  clearErrors()
}

function send() {
  const { value } = password
  return purpose === 'login'
    ? sendCredentials('/login', { email: email.value, password: value })
    : sendChange({ email: email.value, currentPassword: value, newPassword: newPassword.value })
}

/**
 * @param {import('./send.js').ChangeAnswer} answer
 * @param {string} sentEmail
 */
function react({ status, error, retryAfterSeconds, advice }, sentEmail) {
  if (advice) return say(text(advice))
  if (error?.code === 'PASSWORD_CHANGE_REQUIRED') return demandChange(sentEmail)
  // The temporary password must be typed again.
  if (purpose === 'forcedChange' && [401, 429].includes(status)) showForm()
  switch (status) {
    case 400:
      return say(showNamedErrors(error) ? '' : text('unexpected'))
    case 401: {
      const isEmailKnown = byId('email-part', HTMLElement).hidden
      say(text(isEmailKnown ? 'currentPasswordWrong' : 'invalidCredentials'))
      password.focus()
      return password.select()
    }
    case 429:
      return startWait(sentEmail, retryAfterSeconds ?? WAIT_DEFAULT_SECONDS)
    default:
      return say(adviceOn(status))
  }
}

/** @param {string} sentEmail */
function demandChange(sentEmail) {
  setPurpose('forcedChange', sentEmail)
  show(form)
  say(text('temporaryPassword'), 'information')
  newPassword.focus()
}
