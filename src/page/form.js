// The form: checks the input, sends it, and reacts to the answer.
import { call } from './api.js'
import {
  adviceOn,
  announce,
  byId,
  notice,
  say,
  setBusy,
  show,
  text,
  toCountdown,
  toTime,
} from './dom.js'
import { hidePassword, password, startPasswordField } from './password-field.js'

/** @typedef {import('./dom.js').TextKey} TextKey */

const PASSWORD_MIN_CHARACTERS = 8
/** If a proxy has removed the Retry-After header of a 429. */
const WAIT_DEFAULT_SECONDS = 900
const WAIT_MAX_SECONDS = 24 * 60 * 60
const RETRY_DEFAULT_SECONDS = 2
const RETRY_MAX_SECONDS = 30

const form = byId('form', HTMLFormElement)
const email = byId('email', HTMLInputElement)
const logInButton = byId('log-in', HTMLButtonElement)
const logInText = byId('log-in-text', HTMLElement)

/** @type {{ input: HTMLInputElement, message: TextKey, isRight: () => boolean }[]} */
const CHECKS = [
  {
    input: email,
    message: 'emailInvalid',
    isRight: () => /^[^\s@]+@[^\s@]+$/.test(email.value.trim()),
  },
  {
    input: password,
    message: 'passwordShort',
    isRight: () => [...password.value].length >= PASSWORD_MIN_CHARACTERS,
  },
]

let isSending = false
/** Set by the user's own actions: a password manager may fill in the fields by itself. */
let isUsed = form.contains(document.activeElement)
/** The email of the login that must wait; null if none must. */
let waitingEmail = /** @type {string | null} */ (null)
/** @type {ReturnType<typeof setTimeout> | undefined} */
let countdown

/** @param {(data: import('./api.js').Data) => void} onLogin */
export function startForm(onLogin) {
  form.addEventListener('submit', async event => {
    event.preventDefault()
    if (isSending || !check()) return
    hidePassword()
    setSending(true)
    const sentEmail = email.value.trim()
    const answer = await logIn()
    if (answer.data?.user) {
      // Stays busy until another view or another page is shown.
      clearForm()
      return onLogin(answer.data)
    }
    setSending(false)
    react(answer, sentEmail)
  })
  for (const type of ['keydown', 'paste', 'pointerdown']) {
    form.addEventListener(type, () => {
      isUsed = true
    })
  }
  // The key is labelled "next" on phones.
  email.addEventListener('keydown', event => {
    if (event.key !== 'Enter' || password.value) return
    event.preventDefault()
    password.focus()
  })
  for (const { input, isRight } of CHECKS) {
    // While the user types, an error disappears once it is corrected, but no new one appears.
    input.addEventListener('input', () => {
      if (input.getAttribute('aria-invalid') === 'true' && isRight()) mark(input, '')
    })
  }
  // The wait is for one email. The service decides about another one.
  email.addEventListener('input', () => {
    if (waitingEmail !== null && email.value.trim() !== waitingEmail) endWait('')
  })
  startPasswordField(form)
  logInButton.disabled = false
  restore()
}

/** @param {string} [sentence] why the form is shown again */
export function showForm(sentence = '') {
  setSending(false)
  show(form)
  if (waitingEmail !== null) return
  say(sentence, 'information')
  // The user may have begun to type before the script was there.
  if (!form.contains(document.activeElement)) email.focus()
}

export function isFormShown() {
  return !form.hidden
}

/** True if the user fills it in, is logging in or must wait. A late answer must then not replace the form. */
export function isFormInUse() {
  return isSending || isUsed || waitingEmail !== null
}

/** Removes what was typed: the password must not stay in the page after a login. */
export function clearForm() {
  form.reset()
  isUsed = false
  say('')
  for (const { input } of CHECKS) mark(input, '')
}

function check() {
  const wrong = CHECKS.filter(({ isRight }) => !isRight())
  showErrors(wrong)
  return wrong.length === 0
}

/**
 * Focuses the first. The errors are announced too: the focus may be there already.
 * @param {typeof CHECKS} wrong
 */
function showErrors(wrong) {
  for (const { input, message } of CHECKS) {
    mark(input, wrong.some(one => one.input === input) ? message : '')
  }
  announce(wrong.map(({ message }) => text(message)).join(' '))
  wrong[0]?.input.focus()
}

/**
 * @param {HTMLInputElement} input
 * @param {TextKey | ''} message
 */
function mark(input, message) {
  input.setAttribute('aria-invalid', String(message !== ''))
  byId(`${input.id}-error`, HTMLElement).textContent = message && text(message)
}

/** Tries an overloaded service once more, after the time in its Retry-After header. */
async function logIn() {
  const credentials = { email: email.value, password: password.value }
  const first = await call('POST', '/login', credentials)
  if (first.status !== 503) return first
  say(text('busyRetrying'), 'information')
  const seconds = Math.min(first.retryAfterSeconds ?? RETRY_DEFAULT_SECONDS, RETRY_MAX_SECONDS)
  await new Promise(resolve => setTimeout(resolve, seconds * 1000))
  return call('POST', '/login', credentials)
}

/**
 * @param {import('./api.js').Answer} answer
 * @param {string} sentEmail
 */
function react({ status, error, retryAfterSeconds }, sentEmail) {
  switch (status) {
    case 400: {
      const named = CHECKS.filter(({ input }) => error?.fields?.includes(input.id))
      showErrors(named)
      return say(named.length > 0 ? '' : text('unexpected'))
    }
    case 401:
      say(text('invalidCredentials'))
      password.focus()
      return password.select()
    case 429:
      return startWait(sentEmail, retryAfterSeconds ?? WAIT_DEFAULT_SECONDS)
    default:
      return say(adviceOn(status))
  }
}

/**
 * Loads the page from another address, with the email in the form. It is not part of the address, which servers
 * log: the browser keeps `history.state` for this page when it is reloaded, and only then.
 * @param {string} address
 */
export function reloadAt(address) {
  history.replaceState({ ...history.state, email: email.value }, '', address)
  location.reload()
}

/** After a reload, the wait goes on, for the same email. */
function restore() {
  const { email: kept, endsAt } = history.state ?? {}
  history.replaceState(null, '')
  if (typeof kept !== 'string') return
  email.value = kept
  const seconds = Math.ceil((endsAt - Date.now()) / 1000)
  // The clock may have been changed.
  if (seconds > 0 && seconds <= WAIT_MAX_SECONDS) startWait(kept, seconds)
}

/**
 * The button counts the seconds; screen readers read only the beginning and the end of the wait.
 * @param {string} forEmail
 * @param {number} askedSeconds
 */
function startWait(forEmail, askedSeconds) {
  const seconds = Math.min(askedSeconds, WAIT_MAX_SECONDS)
  const clocks = [Date, performance]
  const ends = clocks.map(clock => clock.now() + seconds * 1000)
  waitingEmail = forEmail
  history.replaceState({ email: forEmail, endsAt: ends[0] }, '')
  password.value = ''
  logInButton.disabled = true
  // Rounded up to the next minute: times are shown without seconds.
  say(text('tooManyAttempts', { time: toTime(Date.now() + seconds * 1000 + 59_999) }))
  notice.focus()
  tick()

  function tick() {
    // Date may be set back; performance may stop while the computer sleeps. The earlier end counts.
    const leftMs = Math.min(...clocks.map((clock, index) => (ends[index] ?? 0) - clock.now()))
    const left = Math.ceil(leftMs / 1000)
    if (left <= 0) return endWait(text('tryAgainNow'))
    logInText.textContent = text('countdown', { time: toCountdown(left) })
    countdown = setTimeout(tick, 1000)
  }
}

/** @param {string} sentence */
function endWait(sentence) {
  clearTimeout(countdown)
  waitingEmail = null
  history.replaceState(null, '')
  logInButton.disabled = false
  logInText.textContent = text('logIn')
  say(sentence, 'information')
  // The user may be in another field.
  if (document.activeElement === notice) password.focus()
}

/** @param {boolean} isNowSending */
function setSending(isNowSending) {
  isSending = isNowSending
  setBusy(logInButton, isNowSending)
  if (waitingEmail === null) logInText.textContent = text(isNowSending ? 'loggingIn' : 'logIn')
  announce(isNowSending ? text('loggingIn') : '')
}
