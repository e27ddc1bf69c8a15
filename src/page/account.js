// What a person sees who is logged in: the account, the access token's end, and the own sessions.
import { call } from './api.js'
import { describeDevice } from './device.js'
import { adviceOn, announce, byId, copyOf, say, show, text, toTime } from './dom.js'

/** Well before both ends: of the access token, and of a cookie that nobody uses. */
const RENEW_AFTER_MS = 20 * 60_000
/** An open page is not somebody at work: left alone for so long, it lets the session end. */
const IDLE_MS = 30 * 60_000
const RETRY_MS = 60_000
/** The second click of a double one must not meet the session that has moved up. */
const DOUBLE_CLICK_MS = 500

const account = byId('account', HTMLElement)
const list = byId('sessions', HTMLElement)
const endOthers = byId('end-others', HTMLButtonElement)
const onward = byId('continue', HTMLAnchorElement)

/** Where the service lets this login go on to; empty if nowhere. */
export const returnTo = onward.getAttribute('href') ?? ''

let userId = ''
let accessEndsAt = 0
let usedAt = Date.now()
/** Until then the buttons of single sessions do nothing. */
let deafUntil = 0
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer
/** @type {(sentence: string) => void} */
let onEnd

/** @param {(sentence: string) => void} whenEnded */
export function startAccount(whenEnded) {
  onEnd = whenEnded
  if (returnTo) {
    onward.textContent = text('continueTo', { host: new URL(returnTo).host })
    onward.hidden = false
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
  // Another tab may have logged out, or somebody else in.
  document.addEventListener('visibilitychange', () => {
    if (!account.hidden && document.visibilityState === 'visible') checkSession()
  })
}

/**
 * @param {import('./api.js').User} user
 * @param {number | null} expiresInSeconds null: not known yet
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

/** @param {string} reason */
function leave(reason) {
  // An answer that comes late finds the form in use.
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

/** Otherwise at the end: by then the session has ended, unless another tab is in use. */
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

/** @param {string} [ifRefused] what it means to have no session */
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
    if (performance.now() >= deafUntil) end(`/sessions/${id}`, 'oneEnded')
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
 * @param {string} done
 */
async function end(path, done) {
  if (!(await act('DELETE', path))) return
  announce(text(done))
  await showSessions()
  deafUntil = performance.now() + DOUBLE_CLICK_MS
  byId('sessions-title', HTMLElement).focus()
}

/**
 * True if it is done; else why not has been said.
 * @param {'POST' | 'DELETE'} method
 * @param {string} path
 */
async function act(method, path) {
  say('')
  const answer = await change(method, path)
  if (answer === null) return false
  // What is not there has ended already.
  const isDone = answer.status === 200 || answer.status === 404
  if (!isDone) say(adviceOn(answer.status))
  return isDone
}

/**
 * Null if there is another view now. A CSRF token that no longer fits is replaced once, but never for
 * another person than the one on the screen.
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
