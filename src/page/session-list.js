// The list of the user's sessions.
import { describeDevice } from './device.js'
import { byId, copyOf, text, toAge } from './dom.js'

/** The second click of a double click must not end the session that has moved up in the list. */
const DOUBLE_CLICK_MS = 500

const list = byId('sessions', HTMLElement)
/** Before this time, clicks are ignored. */
let ignoreClicksUntil = 0

export function clearList() {
  list.replaceChildren()
}

/**
 * Leaves an unchanged list as it is, under a pointer or the focus.
 * @param {import('./api.js').Session[]} sessions
 * @param {(button: HTMLButtonElement, id: string) => void} onEnd
 */
export function showList(sessions, onEnd) {
  const rows = sessions.map(session => toRow(session, onEnd))
  if (rows.map(row => row.outerHTML).join('') === list.innerHTML) return
  if (list.hasChildNodes()) ignoreClicksUntil = performance.now() + DOUBLE_CLICK_MS
  const focusedId = document.activeElement?.closest('li')?.id
  list.replaceChildren(...rows)
  const row = rows.find(({ id }) => id === focusedId)
  row?.querySelector('button')?.focus()
}

/**
 * @param {import('./api.js').Session} session
 * @param {(button: HTMLButtonElement, id: string) => void} onEnd
 */
function toRow({ id, userAgent, ip, createdAt, lastUsedAt, current }, onEnd) {
  const { icon, name } = describeDevice(userAgent)
  const [opened, used] = [toAge(createdAt), toAge(lastUsedAt)]
  const detail = text(opened === used ? 'sessionUnused' : 'sessionDetail', { ip, opened, used })
  const row = copyOf('session').querySelector('li')
  const button = row?.querySelector('button')
  if (!row || !button) throw new Error('the template of a session has no button')
  row.id = `session-${id}`
  row.querySelector('use')?.setAttribute('href', `#${icon}`)
  row.querySelector('strong')?.replaceChildren(name)
  row.querySelector('.detail')?.replaceChildren(detail)
  row.querySelector('.badge')?.toggleAttribute('hidden', !current)
  button.hidden = current
  button.setAttribute('aria-label', text('endNamed', { device: name, detail }))
  button.addEventListener('click', () => {
    if (performance.now() >= ignoreClicksUntil) onEnd(button, id)
  })
  return row
}
