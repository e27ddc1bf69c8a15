// The elements of the page, and its texts: the document contains them in its language. They are only
// inserted as text, never as HTML.

/**
 * @typedef {keyof typeof import('./texts/en.json')} TextKey
 * @typedef {SameKeys<typeof import('./texts/de.json')>} German
 */

/**
 * The type check fails for a language whose keys differ from those of the English file.
 * @template {Record<TextKey, string> & Record<Exclude<keyof Texts, TextKey>, never>} Texts
 * @typedef {Texts} SameKeys
 */

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const found = document.getElementById(id)
  if (!(found instanceof type)) throw new Error(`no ${type.name} #${id}`)
  return found
}

/** @param {string} id */
export function copyOf(id) {
  const copy = byId(id, HTMLTemplateElement).content.cloneNode(true)
  return /** @type {DocumentFragment} */ (copy)
}

const texts = new Map(
  [...copyOf('texts').querySelectorAll('data')].map(({ value, textContent }) => [
    value,
    textContent ?? '',
  ]),
)

/**
 * @param {TextKey} key
 * @param {Record<string, string | number>} [values]
 */
export function text(key, values) {
  return partsOf(key, values).join('')
}

/**
 * The pieces of a text, with its values between them.
 * @template [Value=string | number]
 * @param {TextKey} key
 * @param {Record<string, Value>} [values]
 * @returns {(string | Value)[]}
 */
export function partsOf(key, values = {}) {
  const parts = (texts.get(key) ?? key).split(/\{(\w+)\}/)
  return parts.map((part, i) => (i % 2 === 0 ? part : (values[part] ?? '')))
}

const { lang } = document.documentElement
/** The user's own region if its language is that of the page: en-GB for a page in English. */
const locale = navigator.languages.find(isOfPage) ?? lang
const timeOfDay = new Intl.DateTimeFormat(locale, { timeStyle: 'short' })
const dayAndTime = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' })
const exactTime = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'medium' })
const relative = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' })
const MINUTE_MS = 60_000
/** @type {[Intl.RelativeTimeFormatUnit, number, number][]} each with its length and where the next one begins */
const UNITS = [
  ['minute', MINUTE_MS, 60 * MINUTE_MS],
  ['hour', 60 * MINUTE_MS, 24 * 60 * MINUTE_MS],
  ['day', 24 * 60 * MINUTE_MS, 7 * 24 * 60 * MINUTE_MS],
]

/**
 * False also for tags that Intl would reject, such as "en-US@posix".
 * @param {string} tag
 */
function isOfPage(tag) {
  return /^[a-z\d-]+$/i.test(tag) && `${tag}-`.toLowerCase().startsWith(`${lang}-`.toLowerCase())
}

/** @param {number | string} moment */
export function toTime(moment) {
  const date = new Date(moment)
  const isToday = date.toDateString() === new Date().toDateString()
  return (isToday ? timeOfDay : dayAndTime).format(date)
}

/**
 * "5 minutes ago", or the time to the second, which a pointer shows in any case.
 * @param {string} moment
 * @param {boolean} isExact
 */
export function toTimeElement(moment, isExact) {
  const element = document.createElement('time')
  element.dateTime = moment
  element.title = exactTime.format(new Date(moment))
  element.textContent = isExact ? element.title : toAge(moment)
  return element
}

/**
 * "5 minutes ago", and a date after a week. The clocks of the service and of the browser may differ.
 * @param {string} moment
 */
function toAge(moment) {
  const ageMs = Math.max(0, Date.now() - Date.parse(moment))
  if (ageMs < MINUTE_MS) return text('justNow')
  const [unit, lengthMs] = UNITS.find(([, , endMs]) => ageMs < endMs) ?? []
  if (!unit || !lengthMs) return dayAndTime.format(new Date(moment))
  return relative.format(-Math.floor(ageMs / lengthMs), unit)
}

/**
 * "14:59", and "1:00:00" from an hour on.
 * @param {number} seconds
 */
export function toCountdown(seconds) {
  const parts = [Math.floor(seconds / 60) % 60, seconds % 60]
  const hours = Math.floor(seconds / 3600)
  if (hours > 0) parts.unshift(hours)
  return parts.map((part, i) => String(part).padStart(i === 0 ? 1 : 2, '0')).join(':')
}

const brandName = byId('brand', HTMLElement).textContent
export const formTitle = byId('form-title', HTMLElement)
const views = ['form', 'leaving', 'account'].map(id => byId(id, HTMLElement))

/** @param {HTMLElement} shown */
export function show(shown) {
  for (const view of views) view.hidden = view !== shown
  byId('loading', HTMLElement).hidden = true
  document.body.dataset.view = shown.id
  const title = shown.id === 'account' ? text('accountTitle') : formTitle.textContent
  document.title = `${title} · ${brandName}`
  // Moving it without need would remove the focus from it.
  if (!shown.contains(notice)) shown.querySelector('.head')?.after(notice)
}

export const notice = byId('notice', HTMLElement)
const status = byId('status', HTMLElement)

/**
 * Shows a sentence under the heading; screen readers read it. An error is an alert, and a new element each time:
 * with Firefox, a changed text in an existing alert is not read. Information comes with a new view, where
 * a new alert would not be read either.
 * @param {string} sentence
 * @param {'error' | 'information'} [kind]
 */
export function say(sentence, kind = 'error') {
  const shown = document.createElement('span')
  shown.textContent = sentence
  if (kind === 'error') shown.setAttribute('role', 'alert')
  else if (sentence) announce(sentence)
  notice.replaceChildren(...(sentence ? [shown] : []))
  notice.dataset.kind = kind
}

/** Removes the reason of a failure, once there has been a success. */
export function clearError() {
  if (notice.dataset.kind === 'error') say('')
}

/**
 * Advice for a failure that has no text of its own.
 * @param {number} status
 */
export function adviceOn(status) {
  if (status === 0) return text('networkLost')
  return text(status === 429 || status === 503 ? 'serviceBusy' : 'unexpected')
}

/**
 * For screen readers only: they read it at the next pause.
 * @param {string} sentence
 */
export function announce(sentence) {
  status.textContent = sentence
}

/**
 * The `disabled` property would remove the focus.
 * @param {HTMLButtonElement} button
 * @param {boolean} isBusy
 */
export function setBusy(button, isBusy) {
  button.setAttribute('aria-disabled', String(isBusy))
  button.setAttribute('aria-busy', String(isBusy))
}
