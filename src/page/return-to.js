// Where the user goes after a login: the address in `return_to` if the service accepted it, otherwise the home
// page if there is one.
import { byId, text } from './dom.js'

/** If the browser has not left the page after this time, the account is shown with a link. */
const LEAVING_MS = 10_000
/** A user that is back sooner was sent back by the application. */
const SENT_BACK_MS = 10_000

const link = byId('continue', HTMLAnchorElement)

/** The accepted address, or empty. */
export const returnTo = link.getAttribute('href') ?? ''

export const isReturnRefused =
  returnTo === '' && new URLSearchParams(location.search).has('return_to')

const target = returnTo || (link.dataset.home ?? '')
export const host = target && new URL(target).host

export function showDestination() {
  if (!target) return
  link.href = target
  link.textContent = text(returnTo ? 'continueTo' : 'goTo', { host })
  link.hidden = false
  if (returnTo) byId('destination', HTMLElement).textContent = text('destination', { host })
}

/**
 * Goes to the accepted address.
 * @param {() => void} ifStaying
 */
export function leave(ifStaying) {
  writeLeft(`${Date.now()} ${returnTo}`)
  location.replace(returnTo)
  setTimeout(ifStaying, LEAVING_MS)
}

/** True if the application does not accept the session. Going there again would end here again. */
export function wasSentBack() {
  const [leftAt, address] = readLeft().split(' ')
  return address === returnTo && Date.now() - Number(leftAt) < SENT_BACK_MS
}

/** Where the browser offers no storage, every user counts as sent back, and gets a link. */
function readLeft() {
  try {
    return sessionStorage.getItem('left') ?? ''
  } catch {
    return `${Date.now()} ${returnTo}`
  }
}

/** @param {string} value */
function writeLeft(value) {
  try {
    sessionStorage.setItem('left', value)
  } catch {
    // Read above.
  }
}
