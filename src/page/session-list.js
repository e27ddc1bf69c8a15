// The list of the user's sessions.
import { describeDevice } from './device.js'
import { byId, copyOf, partsOf, text, toTimeElement } from './dom.js'

/** The second click of a double click must not end the session that has moved up in the list. */
const DOUBLE_CLICK_MS = 500
/** A longer list shows this many sessions until the user asks for all. */
const SHOWN_AT_FIRST = 5

/** @typedef {(button: HTMLButtonElement, id: string) => void} OnEnd */

const list = byId('sessions', HTMLElement)
const showAll = byId('show-all', HTMLButtonElement)
let isWhole = false
/** Before this time, clicks are ignored. */
let ignoreClicksUntil = 0

export function startList() {
  showAll.addEventListener('click', () => {
    isWhole = true
    const rows = /** @type {HTMLElement[]} */ ([...list.children])
    hideRest(rows)
    rows[SHOWN_AT_FIRST]?.querySelector('button')?.focus()
  })
}

export function clearList() {
  list.replaceChildren()
  isWhole = false
  hideRest([])
}

/**
 * Leaves an unchanged list as it is, under a pointer or the focus.
 * @param {import('./api.js').Session[]} sessions
 * @param {OnEnd} onEnd
 */
export function showList(sessions, onEnd) {
  const looks = sessions.map(session => toRow(session, false, onEnd).textContent)
  const rows = sessions.map((session, index) => {
    const isAlike = looks.some((look, other) => other !== index && look === looks[index])
    return toRow(session, isAlike, onEnd)
  })
  hideRest(rows)
  if (rows.map(row => row.outerHTML).join('') === list.innerHTML) return
  if (list.hasChildNodes()) ignoreClicksUntil = performance.now() + DOUBLE_CLICK_MS
  const focusedId = document.activeElement?.closest('li')?.id
  list.replaceChildren(...rows)
  const row = rows.find(({ id }) => id === focusedId)
  row?.querySelector('button')?.focus()
}

/** @param {HTMLElement[]} rows */
function hideRest(rows) {
  const isCut = !isWhole && rows.length > SHOWN_AT_FIRST
  for (const [index, row] of rows.entries()) row.hidden = isCut && index >= SHOWN_AT_FIRST
  showAll.hidden = !isCut
  showAll.textContent = text('showAll', { count: rows.length })
}

/**
 * @param {import('./api.js').Session} session
 * @param {boolean} isAlike if another session would look the same; exact times tell them apart
 * @param {OnEnd} onEnd
 */
function toRow({ id, userAgent, ip, createdAt, lastUsedAt, current }, isAlike, onEnd) {
  const { icon, name } = describeDevice(userAgent)
  const opened = toTimeElement(createdAt, isAlike)
  const used = toTimeElement(lastUsedAt, isAlike)
  const isUnused = opened.textContent === used.textContent
  const row = copyOf('session').querySelector('li')
  const button = row?.querySelector('button')
  const detail = row?.querySelector('.detail')
  if (!row || !button || !detail) throw new Error('the template of a session has no button')
  row.id = `session-${id}`
  row.querySelector('use')?.setAttribute('href', `#${icon}`)
  row.querySelector('strong')?.replaceChildren(name)
  detail.replaceChildren(
    ...partsOf(isUnused ? 'sessionUnused' : 'sessionDetail', { ip, opened, used }),
  )
  row.querySelector('.badge')?.toggleAttribute('hidden', !current)
  button.hidden = current
  const label = { device: name, detail: detail.textContent ?? '' }
  button.setAttribute('aria-label', text('endNamed', label))
  button.addEventListener('click', () => {
    if (performance.now() >= ignoreClicksUntil) onEnd(button, id)
  })
  return row
}
