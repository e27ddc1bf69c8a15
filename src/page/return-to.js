// Where the user goes after a login: the address in `return_to` if the service accepted it, otherwise the home
// page if there is one. With a `challenge`, the address gets a code, by which an application of another site logs in.
import { call } from './api.js'
import { adviceOn, announce, byId, say, show, text } from './dom.js'

/** If the browser has not left the page after this time, the account is shown with a link. */
const LEAVING_MS = 10_000
/** A user that is back sooner was sent back by the application, unless `maxDepartures` allows it. */
const SENT_BACK_MS = 10_000

const leaving = byId('leaving', HTMLElement)
const link = byId('continue', HTMLAnchorElement)

/** The accepted address, or empty. */
export const returnTo = link.getAttribute('href') ?? ''

const query = new URLSearchParams(location.search)

/** Why the user stays here; empty if no address was refused. */
export const refusal = returnTo ? '' : toRefusal(query.get('return_to'))

/** Null if the application wants no code. */
const challenge = returnTo ? query.get('challenge') : null
/** A reload of an application that keeps its tokens in memory leads here, too: with a code, some are allowed. */
const maxDepartures = challenge === null ? 1 : 3

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

/** @param {() => void} onContinue what the link does if the application wants a code */
export function showDestination(onContinue) {
  byId('may-close', HTMLElement).hidden = target !== ''
  if (!target) return
  link.href = target
  link.textContent = text(returnTo ? 'continueTo' : 'goTo', { host })
  link.hidden = false
  if (returnTo) byId('destination', HTMLElement).textContent = text('destination', { host })
  if (challenge === null) return
  link.addEventListener('click', event => {
    event.preventDefault()
    onContinue()
  })
}

export const sentBack = () => text('sentBack', { host })

/**
 * Goes to the accepted address.
 * @param {() => Promise<void>} ifStaying
 */
export async function leave(ifStaying) {
  noteDeparture()
  byId('leaving-text', HTMLElement).textContent = text('leaving', { host })
  show(leaving)
  announce(text('leaving', { host }))
  const address = challenge === null ? returnTo : await requestCode(challenge, ifStaying)
  if (!address) return
  location.replace(address)
  setTimeout(ifStaying, LEAVING_MS)
}

/**
 * The address with a code in it; empty if there is none, for the reason that is shown then.
 * @param {string} challenge
 * @param {() => Promise<void>} ifStaying
 */
async function requestCode(challenge, ifStaying) {
  const { status, data } = await call('POST', '/code/issue', { returnTo, challenge })
  if (data?.location) return data.location
  await ifStaying()
  // Without a session, the form has been shown.
  if (status !== 401) say(adviceOn(status))
  return ''
}

export function isLeaving() {
  return !leaving.hidden
}

/** True if the application does not accept the session. Going there again would end here again. */
export function wasSentBack() {
  return (readDepartures()?.length ?? 0) >= maxDepartures
}

/** This is false where the browser offers no storage: whether the user was sent back is not known then. */
export function mayGoOn() {
  return returnTo !== '' && readDepartures() !== null && !wasSentBack()
}

/** When the page was left for this address, a short time ago. */
function readDepartures() {
  try {
    const [address, ...times] = sessionStorage.getItem('left')?.split(' ') ?? []
    const isRecent = (/** @type {string} */ time) =>
      Math.abs(Date.now() - Number(time)) < SENT_BACK_MS
    return address === returnTo ? times.filter(isRecent) : []
  } catch {
    return null
  }
}

function noteDeparture() {
  try {
    const times = [...(readDepartures() ?? []), Date.now()]
    sessionStorage.setItem('left', `${returnTo} ${times.join(' ')}`)
  } catch {
    // See mayGoOn.
  }
}
