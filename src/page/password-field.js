// The field of the password: shows it on demand, and warns of Caps Lock.
import { byId, text } from './dom.js'

export const password = byId('password', HTMLInputElement)
const reveal = byId('reveal', HTMLButtonElement)
const capsLock = byId('caps-lock', HTMLElement)

/** @param {HTMLFormElement} around */
export function startPasswordField(around) {
  // The focus stays in the field.
  reveal.addEventListener('mousedown', event => event.preventDefault())
  reveal.addEventListener('click', () => setReveal(password.type === 'password'))
  // The hint stays when the field loses the focus: nothing may move under a pointer that is pressed.
  for (const type of /** @type {const} */ (['keydown', 'keyup'])) {
    around.addEventListener(type, event => {
      const isOn = event.getModifierState?.('CapsLock')
      capsLock.textContent = isOn ? text('capsLock') : ''
    })
  }
}

export function hidePassword() {
  setReveal(false)
}

/** @param {boolean} isRevealed */
function setReveal(isRevealed) {
  const { selectionStart, selectionEnd } = password
  password.type = isRevealed ? 'text' : 'password'
  // Changing the type moves the cursor in some browsers.
  password.setSelectionRange(selectionStart, selectionEnd)
  reveal.setAttribute('aria-pressed', String(isRevealed))
}
