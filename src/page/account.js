// The view of a logged-in user: the account, the end of the access token, and the user's sessions.
import { call } from './api.js'
import { describeDevice } from './device.js'
import { adviceOn, announce, byId, copyOf, say, show, text, toTime } from './dom.js'

/** Before the access token expires (60 minutes), and before an idle cookie does (30 minutes). */
const RENEW_AFTER_MS = 20 * 60_000
/** A page that is open but unused for this long no longer renews the session. */
const IDLE_MS = 30 * 60_000
const RETRY_MS = 60_000
/** The second click of a double click must not end the session that has moved up in the list. */
const DOUBLE_CLICK_MS = 500

const account = byId('account', HTMLElement)
const list = byId('sessions', HTMLElement)
const endOthers = byId('end-others', HTMLButtonElement)
const continueLink = byId('continue', HTMLAnchorElement)

/** The accepted address to return to, or empty. */
export const returnTo = continueLink.getAttribute('href') ?? ''

let userId = ''
let accessEndsAt = 0
let usedAt = Date.now()
/** Before this time, clicks on the buttons of single sessions are ignored. */
let ignoreClicksUntil = 0
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer
/** @type {(sentence: string) => void} */
let onEnd

/** @param {(sentence: string) => void} whenEnded */
export function startAccount(whenEnded) {
  onEnd = whenEnded
  if (returnTo) {
    continueLink.textContent = text('continueTo', { host: new URL(returnTo).host })
    continueLink.hidden = false
  }
  byId('log-out', HTMLButtonElement).addEventListener('click', async () => {
    if (await act('POST', '/logout')) leave('loggedOut')
  })
  endOthers.addEventListener('click', () => end('/sessions', 'othersEnded'))
  for (const type of ['pointerdown', 'keydown']) {
    document.addEventListener(type, () => {
      usedAt = Date.now()
    })
  }
  // In another tab, the user may have logged out, or another user logged in.
  document.addEventListener('visibilitychange', () => {
    if (!account.hidden && document.visibilityState === 'visible') checkSession()
  })
}

/**
 * @param {import('./api.js').User} user
 * @param {number | null} expiresInSeconds of the access token; null if not known yet
 */
export async function showAccount({ id, name, email, role }, expiresInSeconds) {
  userId = id
  byId('name', HTMLElement).textContent = name
  byId('user-email', HTMLElement).textContent = email
  byId('role', HTMLElement).textContent = role
  byId('access-until', HTMLElement).textContent = '–'
  list.replaceChildren()
  endOthers.hidden = true
  show(account)
  byId('name', HTMLElement).focus()
  if (expiresInSeconds === null) await renew()
  else scheduleRenewal(expiresInSeconds)
  await showSessions(expiresInSeconds === null ? 'sessionEnded' : 'noCookie')
}

/** @param {import('./dom.js').TextKey} reason */
function leave(reason) {
  // A late answer must not disturb the form, which the user may already be filling in.
  if (account.hidden) return
  clearTimeout(timer)
  userId = ''
  list.replaceChildren()
  onEnd(text(reason))
}

async function checkSession() {
  const { status, data } = await call('GET', '/session')
  if (status === 401) return leave('sessionEnded')
  if (!data || account.hidden) return
  usedAt = Date.now()
  if (data.user.id === userId) await showSessions()
  else await showAccount(data.user, null)
}

/** @param {number} expiresInSeconds */
function scheduleRenewal(expiresInSeconds) {
  accessEndsAt = Date.now() + expiresInSeconds * 1000
  const until = text('accessUntilRenewed', { time: toTime(accessEndsAt) })
  byId('access-until', HTMLElement).textContent = until
  clearTimeout(timer)
  timer = setTimeout(renewIfUsed, RENEW_AFTER_MS)
}

/** An unused page waits until the token expires. The session has ended by then unless another tab uses it. */
function renewIfUsed() {
  if (Date.now() - usedAt < IDLE_MS) return renew()
  timer = setTimeout(renew, accessEndsAt - Date.now())
}

async function renew() {
  const answer = await change('POST', '/refresh')
  if (answer === null) return
  if (answer.data) return scheduleRenewal(answer.data.expiresIn)
  clearTimeout(timer)
  timer = setTimeout(renewIfUsed, RETRY_MS)
}

/** @param {import('./dom.js').TextKey} [ifRefused] the text to show if there is no session */
async function showSessions(ifRefused = 'sessionEnded') {
  /** @type {import('./api.js').Session[]} */
  const sessions = []
  /** @type {string | undefined} */
  let next = ''
  while (next !== undefined) {
    const { status, data } = await call('GET', next ? `/sessions?after=${next}` : '/sessions')
    if (status === 401) return leave(ifRefused)
    if (account.hidden) return
    if (!data) return say(adviceOn(status))
    sessions.push(...data.sessions)
    next = data.next
  }
  const current = sessions.filter(session => session.current)
  const others = sessions.filter(session => !session.current)
  list.replaceChildren(...[...current, ...others].map(toItem))
  endOthers.hidden = others.length === 0
}

/** @param {import('./api.js').Session} session */
function toItem({ id, userAgent, ip, lastUsedAt, current }) {
  const item = copyOf('session')
  const device = describeDevice(userAgent)
  const detail = text('sessionDetail', { ip, time: toTime(lastUsedAt) })
  const { title, badge, about, button } = partsOf(item)
  title.textContent = device
  badge.hidden = !current
  about.textContent = detail
  button.hidden = current
  button.ariaLabel = text('endNamed', { device, detail })
  button.addEventListener('click', () => {
    if (performance.now() >= ignoreClicksUntil) end(`/sessions/${id}`, 'oneEnded')
  })
  return item
}

/** @param {DocumentFragment} item */
function partsOf(item) {
  const [title, badge, about, button] = item.querySelectorAll('strong, .badge, .detail, button')
  return /** @type {Record<'title' | 'badge' | 'about' | 'button', HTMLElement>} */ ({
    title,
    badge,
    about,
    button,
  })
}

/**
 * @param {string} path
 * @param {import('./dom.js').TextKey} done
 */
async function end(path, done) {
  if (!(await act('DELETE', path))) return
  announce(text(done))
  await showSessions()
  ignoreClicksUntil = performance.now() + DOUBLE_CLICK_MS
  byId('sessions-title', HTMLElement).focus()
}

/**
 * True if it succeeded; otherwise the reason is shown.
 * @param {'POST' | 'DELETE'} method
 * @param {string} path
 */
async function act(method, path) {
  say('')
  const answer = await change(method, path)
  if (answer === null) return false
  // 404: the session has already ended.
  const isDone = answer.status === 200 || answer.status === 404
  if (!isDone) say(adviceOn(answer.status))
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
    if (session.data && session.data.user.id !== userId) {
      await showAccount(session.data.user, null)
      say(text('otherAccount'), 'information')
      return null
    }
    answer = session.data ? await call(method, path) : session
  }
  if (answer.status !== 401) return answer
  leave('sessionEnded')
  return null
}
