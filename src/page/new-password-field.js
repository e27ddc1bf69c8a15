// The field of a new password. It is in the form only while one is asked for: password managers would take the
// login for a change of the password.
import { byId, copyOf, text } from './dom.js'

const place = byId('new-password-template', HTMLTemplateElement)
place.after(copyOf(place.id))
export const newPasswordPart = byId('new-password-part', HTMLElement)
export const newPassword = byId('new-password', HTMLInputElement)
const hint = byId('new-password-hint', HTMLElement)
newPasswordPart.remove()

newPassword.addEventListener('input', showHint)

/** @param {boolean} isAskedFor */
export function toggleNewPassword(isAskedFor) {
  if (isAskedFor) place.after(newPasswordPart)
  else newPasswordPart.remove()
  newPassword.value = ''
  showHint()
}

export function isLongEnough() {
  return missingCharacters() <= 0
}

function missingCharacters() {
  return newPassword.minLength - [...newPassword.value].length
}

function showHint() {
  const count = missingCharacters()
  hint.dataset.isMet = String(count <= 0)
  hint.textContent = toHint(count)
}

/** @param {number} count of the missing characters */
function toHint(count) {
  if (newPassword.value === '') return text('newPasswordHint', { min: newPassword.minLength })
  if (count <= 0) return text('longEnough')
  return count === 1 ? text('oneMissing') : text('missing', { count })
}
