// The form: checks the input, sends it, and reacts to the answer.
import { call } from './api.js'
import { adviceOn, announce, byId, notice, say, show, text, toTime } from './dom.js'

/** @typedef {import('./dom.js').TextKey} TextKey */

const PASSWORD_MIN_CHARACTERS = 8
/** If a proxy has removed the Retry-After header of a 429. */
const WAIT_DEFAULT_SECONDS = 900
const RETRY_DEFAULT_SECONDS = 2
const RETRY_MAX_SECONDS = 30

const form = byId('form', HTMLFormElement)
const fields = byId('fields', HTMLFieldSetElement)
const email = byId('email', HTMLInputElement)
const password = byId('password', HTMLInputElement)
const reveal = byId('reveal', HTMLButtonElement)
const capsLock = byId('caps-lock', HTMLElement)
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

let isBusy = false

/** @param {(data: import('./api.js').Data) => void} onLogin */
export function startForm(onLogin) {
  form.addEventListener('submit', async event => {
    event.preventDefault()
    if (isBusy || fields.disabled || !check()) return
    setReveal(false)
    setBusy(true)
    say('')
    const answer = await logIn()
    if (answer.data) {
      // Stays busy until another view or another page is shown.
      clearForm()
      return onLogin(answer.data)
    }
    setBusy(false)
    react(answer)
  })
  reveal.addEventListener('click', () => setReveal(password.type === 'password'))
  for (const { input, isRight } of CHECKS) {
    // While the user types, an error disappears once it is corrected, but no new one appears.
    input.addEventListener('input', () => {
      if (input.ariaInvalid === 'true' && isRight()) mark(input, '')
    })
  }
  for (const type of /** @type {const} */ (['keydown', 'keyup'])) {
    password.addEventListener(type, event => {
      const isOn = event.getModifierState?.('CapsLock')
      capsLock.textContent = isOn ? text('capsLock') : ''
    })
  }
  password.addEventListener('blur', () => {
    capsLock.textContent = ''
  })
}

/** @param {string} [sentence] why the form is shown again */
export function showForm(sentence = '') {
  setBusy(false)
  show(form)
  say(sentence, 'information')
  email.focus()
}

/** True if the user has typed, is logging in or must wait. A late answer must then not replace the form. */
export function isFormInUse() {
  return isBusy || fields.disabled || email.value !== '' || password.value !== ''
}

/** Removes what was typed: the password must not stay in the page after a login. */
export function clearForm() {
  form.reset()
  say('')
  for (const { input } of CHECKS) mark(input, '')
}

function check() {
  for (const { input, message, isRight } of CHECKS) mark(input, isRight() ? '' : message)
  const wrong = CHECKS.find(({ isRight }) => !isRight())
  wrong?.input.focus()
  return !wrong
}

/**
 * @param {HTMLInputElement} input
 * @param {TextKey | ''} message
 */
function mark(input, message) {
  input.ariaInvalid = message ? 'true' : 'false'
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

/** @param {import('./api.js').Answer} answer */
function react({ status, error, retryAfterSeconds }) {
  say('')
  switch (status) {
    case 400: {
      const named = CHECKS.filter(({ input }) => error?.fields?.includes(input.id))
      for (const { input, message } of named) mark(input, message)
      if (named[0]) return named[0].input.focus()
      return say(text('unexpected'))
    }
    case 401:
      say(text('invalidCredentials'))
      password.focus()
      return password.select()
    case 429:
      return startWait(retryAfterSeconds ?? WAIT_DEFAULT_SECONDS)
    default:
      return say(adviceOn(status))
  }
}

/**
 * The button counts the seconds; screen readers read only the beginning and the end of the wait.
 * @param {number} seconds
 */
function startWait(seconds) {
  const clocks = [Date, performance]
  const ends = clocks.map(clock => clock.now() + seconds * 1000)
  // Rounded up to the next minute: times are shown without seconds.
  say(text('tooManyAttempts', { time: toTime(Date.now() + seconds * 1000 + 59_999) }))
  fields.disabled = true
  notice.focus()
  tick()

  function tick() {
    // Date may be set back; performance may stop while the computer sleeps. The earlier end counts.
    const leftMs = Math.min(...clocks.map((clock, index) => (ends[index] ?? 0) - clock.now()))
    const left = Math.ceil(leftMs / 1000)
    if (left > 0) {
      const time = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')}`
      logInText.textContent = text('countdown', { time })
      setTimeout(tick, 1000)
      return
    }
    fields.disabled = false
    logInText.textContent = text('logIn')
    say(text('tryAgainNow'), 'information')
    password.focus()
  }
}

/** @param {boolean} isNowBusy */
function setBusy(isNowBusy) {
  isBusy = isNowBusy
  // The `disabled` property would remove the focus.
  logInButton.ariaDisabled = String(isNowBusy)
  logInButton.ariaBusy = String(isNowBusy)
  logInText.textContent = text(isNowBusy ? 'loggingIn' : 'logIn')
  announce(isNowBusy ? text('loggingIn') : '')
}

/** @param {boolean} isRevealed */
function setReveal(isRevealed) {
  password.type = isRevealed ? 'text' : 'password'
  reveal.ariaPressed = String(isRevealed)
}
