// Where the user goes after a login: the address in `return_to` if the service accepted it, otherwise the home
// page if there is one.
import { announce, byId, show, text } from './dom.js'

/** If the browser has not left the page after this time, the account is shown with a link. */
const LEAVING_MS = 10_000
/** A user that is back sooner was sent back by the application. */
const SENT_BACK_MS = 10_000

const leaving = byId('leaving', HTMLElement)
const link = byId('continue', HTMLAnchorElement)

/** The accepted address, or empty. */
export const returnTo = link.getAttribute('href') ?? ''

/** Why the user stays here; empty if no address was refused. */
export const refusal = returnTo
  ? ''
  : toRefusal(new URLSearchParams(location.search).get('return_to'))

const target = returnTo || (link.dataset.home ?? '')
const host = target && new URL(target).host

/** @param {string | null} asked */
function toRefusal(asked) {
  if (asked === null) return ''
  try {
    const { protocol, host } = new URL(asked)
    if (/^https?:$/.test(protocol)) return text('returnRefused', { host })
  } catch {
    // The text is no address.
  }
  return text('returnUnreadable')
}

export function showDestination() {
  byId('may-close', HTMLElement).hidden = target !== ''
  if (!target) return
  link.href = target
  link.textContent = text(returnTo ? 'continueTo' : 'goTo', { host })
  link.hidden = false
  if (returnTo) byId('destination', HTMLElement).textContent = text('destination', { host })
}

export const sentBack = () => text('sentBack', { host })

/**
 * Goes to the accepted address.
 * @param {() => void} ifStaying
 */
export function leave(ifStaying) {
  writeLeft()
  byId('leaving-text', HTMLElement).textContent = text('leaving', { host })
  show(leaving)
  announce(text('leaving', { host }))
  location.replace(returnTo)
  setTimeout(ifStaying, LEAVING_MS)
}

export function isLeaving() {
  return !leaving.hidden
}

/** True if the application does not accept the session. Going there again would end here again. */
export function wasSentBack() {
  const [leftAt, address] = readLeft()?.split(' ') ?? []
  return address === returnTo && Math.abs(Date.now() - Number(leftAt)) < SENT_BACK_MS
}

/** This is false where the browser offers no storage: whether the user was sent back is not known then. */
export function mayGoOn() {
  return returnTo !== '' && readLeft() !== null && !wasSentBack()
}

/** When and for which address the page was left. */
function readLeft() {
  try {
    return sessionStorage.getItem('left') ?? ''
  } catch {
    return null
  }
}

function writeLeft() {
  try {
    sessionStorage.setItem('left', `${Date.now()} ${returnTo}`)
  } catch {
    // See mayGoOn.
  }
}
