// The view of a logged-in user: the account, its last login and the user's sessions.
import { call } from './api.js'
import { describeDevice } from './device.js'
import { adviceOn, announce, byId, clearError, say, setBusy, show, text, toTime } from './dom.js'
import { clearList, showList, startList } from './session-list.js'
import { tellOtherWindows } from './windows.js'

/** @typedef {import('./dom.js').TextKey} TextKey */

const account = byId('account', HTMLElement)

/** The cookie expires after this time without use. A page that is unused for as long no longer renews the session. */
const IDLE_MS = Number(account.dataset.idleSeconds) * 1000
const RENEW_AFTER_MS = (IDLE_MS * 2) / 3
/** After this time without a renewal the session has ended, unless another window uses it. */
const CHECK_AFTER_MS = (IDLE_MS * 4) / 3
const RETRY_MS = 60_000
/** Fewer may be the user's own typing errors. */
const ALARMING_FAILURES = 3

const userEmail = byId('user-email', HTMLElement)
const logOut = byId('log-out', HTMLButtonElement)
const endOthers = byId('end-others', HTMLButtonElement)

let userId = ''
/** Counts what was asked and shown: an answer is ignored once it is outdated. */
let turn = 0
let usedAt = Date.now()
/** @type {ReturnType<typeof setTimeout> | undefined} */
let renewal
/** @type {(sentence: string) => void} */
let onEnd

/** @param {(sentence: string) => void} whenEnded */
export function startAccount(whenEnded) {
  onEnd = whenEnded
  startList()
  logOut.addEventListener('click', async () => {
    if (!(await act(logOut, 'POST', '/logout'))) return
    tellOtherWindows('loggedOut')
    leaveAccount('loggedOut')
  })
  endOthers.addEventListener('click', () => end(endOthers, '/sessions', 'othersEnded'))
  for (const type of ['pointerdown', 'keydown']) {
    document.addEventListener(type, () => {
      usedAt = Date.now()
    })
  }
  // The session may have ended elsewhere, and the list may have changed.
  document.addEventListener('visibilitychange', () => {
    if (!account.hidden && document.visibilityState === 'visible') checkSession()
  })
}

export function isAccountShown() {
  return !account.hidden
}

/**
 * @param {Pick<import('./api.js').Data, 'user' | 'session'>} data of a login or of GET /session
 * @param {TextKey} [ifRefused] the text to show if there is no session
 * @returns {Promise<void>}
 */
export async function showAccount({ user, session }, ifRefused = 'sessionEnded') {
  userId = user.id
  turn++
  byId('initials', HTMLElement).textContent = initialsOf(user.name)
  byId('name-text', HTMLElement).textContent = user.name
  userEmail.textContent = user.email
  byId('role', HTMLElement).textContent = user.role
  showLastLogin(null)
  clearList()
  endOthers.hidden = true
  show(account)
  byId('name', HTMLElement).focus()
  scheduleRenewal(RENEW_AFTER_MS)
  // The answer to a login contains no session.
  if (!session) return checkSession(ifRefused)
  showLastLogin(session.lastLogin)
  await showSessions(ifRefused)
}

/** @param {string} name */
function initialsOf(name) {
  const words = name.split(/\s+/).filter(Boolean)
  const ends = words.length > 1 ? [words[0], words.at(-1)] : words
  // Arabic letters would be joined to a word.
  return ends.map(word => [...(word ?? '')][0]?.toUpperCase()).join('\u200c')
}

/** @param {import('./api.js').LastLogin | null} last */
function showLastLogin(last) {
  byId('last-login', HTMLElement).hidden = last === null
  showFailures(last?.failuresSince ?? 0)
  if (last === null) return
  const { name: device } = describeDevice(last.userAgent)
  const sentence = text('lastLogin', { time: toTime(last.at), device, ip: last.ip })
  byId('last-login-detail', HTMLElement).textContent = sentence
}

/** @param {number} count */
function showFailures(count) {
  const warning = byId('failures', HTMLElement)
  const several = count === 1 ? text('oneFailure') : text('failures', { count })
  const sentence = count > 0 ? several : ''
  // Screen readers have read the heading before this arrives.
  if (sentence && sentence !== warning.textContent) announce(sentence)
  warning.textContent = sentence
  warning.dataset.kind = count < ALARMING_FAILURES ? 'information' : 'error'
}

/** @param {TextKey} reason */
function leaveAccount(reason) {
  // A late answer must not disturb the form, which the user may already be filling in.
  if (account.hidden) return
  closeAccount()
  onEnd(text(reason))
}

/** Ignores the answers that are under way. Returns the user's email. */
export function closeAccount() {
  clearTimeout(renewal)
  turn++
  userId = ''
  clearList()
  return userEmail.textContent ?? ''
}

/** @param {TextKey} [ifRefused] the text to show if there is no session */
export async function checkSession(ifRefused = 'sessionEnded') {
  const asked = ++turn
  const { status, data } = await call('GET', '/session')
  if (asked !== turn) return
  if (status === 401) return leaveAccount(ifRefused)
  if (!data?.user) return say(adviceOn(status))
  clearError()
  usedAt = Date.now()
  if (data.user.id !== userId) return showOther(data)
  showLastLogin(data.session?.lastLogin ?? null)
  await showSessions(ifRefused)
}

/** @param {import('./api.js').Data} data */
function showOther(data) {
  const shown = showAccount(data)
  say(text('otherAccount'), 'information')
  return shown
}

/** @param {number} afterMs */
function scheduleRenewal(afterMs) {
  clearTimeout(renewal)
  renewal = setTimeout(renewIfUsed, afterMs)
}

function renewIfUsed() {
  if (Date.now() - usedAt < IDLE_MS) return renew()
  renewal = setTimeout(renew, CHECK_AFTER_MS)
}

async function renew() {
  const answer = await change('POST', '/refresh')
  if (answer !== null) scheduleRenewal(answer.data ? RENEW_AFTER_MS : RETRY_MS)
}

/** @param {TextKey} [ifRefused] the text to show if there is no session */
async function showSessions(ifRefused = 'sessionEnded') {
  const asked = ++turn
  /** @type {import('./api.js').Session[]} */
  const sessions = []
  /** @type {string | undefined} */
  let next = ''
  while (next !== undefined) {
    const { status, data } = await call('GET', next ? `/sessions?after=${next}` : '/sessions')
    if (asked !== turn) return
    if (status === 401) return leaveAccount(ifRefused)
    if (!data?.sessions) return say(adviceOn(status))
    sessions.push(...data.sessions)
    next = data.next
  }
  const current = sessions.filter(session => session.current)
  // The service lists the oldest first.
  const others = sessions.filter(session => !session.current).reverse()
  showList([...current, ...others], (button, id) => end(button, `/sessions/${id}`, 'oneEnded'))
  endOthers.hidden = others.length === 0
}

/**
 * @param {HTMLButtonElement} button
 * @param {string} path
 * @param {TextKey} done
 */
async function end(button, path, done) {
  if (!(await act(button, 'DELETE', path))) return
  announce(text(done))
  await showSessions()
  byId('sessions-title', HTMLElement).focus()
}

/**
 * True if it succeeded; otherwise the reason is shown.
 * @param {HTMLButtonElement} button
 * @param {'POST' | 'DELETE'} method
 * @param {string} path
 */
async function act(button, method, path) {
  if (button.getAttribute('aria-busy') === 'true') return false
  setBusy(button, true)
  const answer = await change(method, path)
  setBusy(button, false)
  if (answer === null) return false
  // A session that is not found has already ended. Another 404 may come from a proxy.
  const isGone = method === 'DELETE' && answer.error?.code === 'NOT_FOUND'
  const isDone = answer.status === 200 || isGone
  say(isDone ? '' : adviceOn(answer.status))
  return isDone
}

/**
 * Null if another view is shown now. Replaces an outdated CSRF token once, but only for the user that is
 * shown: a change must not reach the account of another user.
 * @param {'POST' | 'DELETE'} method
 * @param {string} path
 */
async function change(method, path) {
  let answer = await call(method, path)
  if (answer.error?.code === 'CSRF_FAILED') {
    const session = await call('GET', '/session')
    if (account.hidden) return null
    if (session.data && session.data.user.id !== userId) {
      await showOther(session.data)
      return null
    }
    answer = session.data ? await call(method, path) : session
  }
  if (account.hidden) return null
  if (answer.status !== 401) return answer
  leaveAccount('sessionEnded')
  return null
}
