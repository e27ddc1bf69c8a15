// The button of the form: while the form is sent, and while the user must wait after too many attempts.
import { announce, byId, notice, say, setBusy, text, toCountdown, toTime } from './dom.js'
import { email } from './fields.js'
import { password } from './password-field.js'

/** @typedef {import('./dom.js').TextKey} TextKey */

const WAIT_MAX_SECONDS = 24 * 60 * 60

const submitButton = byId('log-in', HTMLButtonElement)
const submitText = byId('log-in-text', HTMLElement)

/** @type {[idle: TextKey, sending: TextKey]} */
let labels = ['logIn', 'loggingIn']
let isFormSending = false
/** The email of the login that must wait; null if none must. */
let waitingEmail = /** @type {string | null} */ (null)
/** @type {ReturnType<typeof setTimeout> | undefined} */
let countdown

export function startSubmitButton() {
  // The wait is for one email. The service decides about another one.
  email.addEventListener('input', () => {
    if (email.value.trim() !== waitingEmail) endWait()
  })
  submitButton.disabled = false
  restore()
}

export const isSending = () => isFormSending
export const isWaiting = () => waitingEmail !== null

/** @param {boolean} isNowSending */
export function setSending(isNowSending) {
  isFormSending = isNowSending
  setBusy(submitButton, isNowSending)
  showLabel()
  announce(isNowSending ? submitText.textContent : '')
}

/** @param {[idle: TextKey, sending: TextKey]} texts */
export function setLabels(texts) {
  labels = texts
  showLabel()
}

function showLabel() {
  if (!isWaiting()) submitText.textContent = text(labels[isFormSending ? 1 : 0])
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
export function startWait(forEmail, askedSeconds) {
  const seconds = Math.min(askedSeconds, WAIT_MAX_SECONDS)
  const clocks = [Date, performance]
  const ends = clocks.map(clock => clock.now() + seconds * 1000)
  waitingEmail = forEmail
  history.replaceState({ email: forEmail, endsAt: ends[0] }, '')
  password.value = ''
  submitButton.disabled = true
  // Rounded up to the next minute: times are shown without seconds.
  say(text('tooManyAttempts', { time: toTime(Date.now() + seconds * 1000 + 59_999) }))
  notice.focus()
  tick()

  function tick() {
    // Date may be set back; performance may stop while the computer sleeps. The earlier end counts.
    const leftMs = Math.min(...clocks.map((clock, index) => (ends[index] ?? 0) - clock.now()))
    const left = Math.ceil(leftMs / 1000)
    if (left <= 0) return endWait(text('tryAgainNow'))
    submitText.textContent = text('countdown', { time: toCountdown(left) })
    countdown = setTimeout(tick, 1000)
  }
}

/** @param {string} [sentence] */
export function endWait(sentence = '') {
  if (!isWaiting()) return
  clearTimeout(countdown)
  waitingEmail = null
  history.replaceState(null, '')
  submitButton.disabled = false
  showLabel()
  say(sentence, 'information')
  // The user may be in another field.
  if (document.activeElement === notice) password.focus()
}
