// A field of a password: shows it on demand, and warns of Caps Lock.
import { byId, text } from './dom.js'

export const password = byId('password', HTMLInputElement)

/** Each hides the password of one field. */
const hideFunctions = /** @type {(() => void)[]} */ ([])

/**
 * @param {HTMLFormElement} form
 * @param {HTMLElement} part has the field, its button and its hint
 */
export function startPasswordField(form, part) {
  const input = part.querySelector('input')
  const reveal = part.querySelector('button')
  const capsLock = part.querySelector('.caps-lock')
  if (!input || !reveal || !capsLock) throw new Error(`#${part.id} has no field with a button`)

  /** @param {boolean} isRevealed */
  const setReveal = isRevealed => {
    const { selectionStart, selectionEnd } = input
    input.type = isRevealed ? 'text' : 'password'
    // Changing the type moves the cursor in some browsers.
    input.setSelectionRange(selectionStart, selectionEnd)
    reveal.setAttribute('aria-pressed', String(isRevealed))
  }
  hideFunctions.push(() => setReveal(false))
  // The focus stays in the field.
  reveal.addEventListener('mousedown', event => event.preventDefault())
  reveal.addEventListener('click', () => setReveal(input.type === 'password'))
  // The hint stays when the field loses the focus: nothing may move under a pointer that is pressed.
  for (const type of /** @type {const} */ (['keydown', 'keyup'])) {
    form.addEventListener(type, event => {
      const isOn = event.target === input && event.getModifierState?.('CapsLock')
      capsLock.textContent = isOn ? text('capsLock') : ''
    })
  }
}

export function hidePasswords() {
  for (const hide of hideFunctions) hide()
}
