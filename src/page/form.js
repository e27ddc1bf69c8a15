// The form: what is checked before it is sent, and what every answer does to it.
import { call } from './api.js'
import { adviceOn, announce, byId, notice, say, show, text, toTime } from './dom.js'

const PASSWORD_MIN_CHARACTERS = 8
/** What the service names in the body of every 429, should the header have got lost on the way. */
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
      // It stays busy: the page leaves it, or leaves altogether.
      clearForm()
      return onLogin(answer.data)
    }
    setBusy(false)
    react(answer)
  })
  reveal.addEventListener('click', () => setReveal(password.type === 'password'))
  for (const { input, isRight } of CHECKS) {
    // Who is mending a mistake sees at once when it is gone; who is still typing sees none.
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

/** @param {string} [sentence] why the form is there again */
export function showForm(sentence = '') {
  setBusy(false)
  show(form)
  say(sentence, 'information')
  email.focus()
}

/** Somebody has typed, logs in or waits: nobody else's answer may interfere. */
export function isFormInUse() {
  return isBusy || fields.disabled || email.value !== '' || password.value !== ''
}

/** Nothing typed outlives the login. */
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
 * @param {string} message
 */
function mark(input, message) {
  input.ariaInvalid = message ? 'true' : 'false'
  byId(`${input.id}-error`, HTMLElement).textContent = message && text(message)
}

/** An overloaded service is asked once more, after the time that it names. */
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
 * The seconds are to be seen; read out are only the beginning and the end.
 * @param {number} seconds
 */
function startWait(seconds) {
  const clocks = [Date, performance]
  const ends = clocks.map(clock => clock.now() + seconds * 1000)
  // Times are shown without their seconds.
  say(text('tooManyAttempts', { time: toTime(Date.now() + seconds * 1000 + 59_999) }))
  fields.disabled = true
  notice.focus()
  tick()

  function tick() {
    // One may be set back, the other stands still while a computer sleeps.
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
  // Not "disabled", which would take the focus away.
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
