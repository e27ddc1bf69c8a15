// The forms of operations: their fields, what is read from them, and the page that asks before something is done.
import { DEFAULT_ROLE } from '../../domain/user.ts'
import { type Html, html, type Value } from '../../http/page/html.ts'
import { canonicalEmail } from '../../login/credentials.ts'
import { WrongUse } from '../../system/failures.ts'
import { parseFields } from '../api/route.ts'
import type { Field, Operation } from '../operation.ts'
import type { Explanation } from '../operations/explain-user.ts'
import { backTo, button, capitalized, emailHtml } from './layout.ts'
import type { ConsoleDeps, ConsoleForm, Refused, Typed, Visit } from './visit.ts'

/** Every operation that the console has, and that changes something. What is most dangerous comes last. */
export function toForms(operations: Record<string, Operation>): ConsoleForm[] {
  const dangerOf = ({ for: level, form }: ConsoleForm) =>
    [level === 'administrator', form.question, form.isEmailTyped].filter(Boolean).length
  return Object.entries(operations)
    .flatMap(([id, operation]) => {
      const { summary, description = '', command, request, fields, form = {} } = operation
      if (operation.for === null || request?.startsWith('GET ')) return []
      const asks = Object.keys(fields).filter(name => fields[name]?.only !== 'command')
      const path = command?.split(' ')[1] ?? id
      const question = form.question ?? operation.question
      const title = form.title ?? summary
      const byDefault = { path, title, about: description, label: title, asks }
      return [{ ...operation, id, form: { ...byDefault, ...form, ...(question && { question }) } }]
    })
    .toSorted((a, b) => dangerOf(a) - dangerOf(b))
}

export const personPath = (id: string) => `/console/people/${id}`

/** `seen` is the state of the person that the page shows. */
export function hidden({ csrf }: Visit, person: Explanation | null): Html {
  return html`<input type="hidden" name="csrf" value="${csrf}">${person && html`<input type="hidden" name="seen" value="${person.updatedAt.toISOString()}">`}`
}

/** `cancel`: the page that another button leads to. */
type Options = { refused?: Refused | null; extra?: Value; kind?: string; cancel?: string }

export function formHtml(
  visit: Visit,
  { id, form, fields }: ConsoleForm,
  person: Explanation | null,
  { refused, extra, kind, cancel }: Options = {},
): Html {
  const action = person ? `${personPath(person.id)}/${form.path}` : '/console/people'
  const known: Record<string, unknown> = person && form.isEdit ? person : {}
  const inputs = form.asks.map(name => {
    const field = fields[name]
    const value = refused ? refused.typed[name] : (known[name] ?? field?.input?.initial)
    const error = refused?.field === name ? refused.message : null
    return fieldOf(visit.deps, `${id}-${name}`, name, field, String(value ?? ''), error)
  })
  return html`<form class="fields" novalidate method="post" action="${action}">${hidden(visit, person)}
            ${inputs}${extra}
            ${button(form.label, kind)}${cancel && html`<a class="button" href="${cancel}">Cancel</a>`}
          </form>`
}

/** The first empty one has the focus. */
const FIRST = ['search', 'addUser-email', 'addUser-name']

export function fieldOf(
  deps: ConsoleDeps,
  id: string,
  name: string,
  field: Field | undefined,
  value: string,
  error: string | null = null,
): Html {
  const { label = capitalized(name), choices } = field?.input ?? {}
  const named = html`id="${id}" name="${name}" aria-describedby="${id}-error" aria-invalid="${String(error !== null)}"${FIRST.includes(id) && value === '' && html` autofocus`}`
  const told = html`<p class="error" id="${id}-error">${error}</p>`
  if (field?.type === 'boolean') {
    const checked = value !== '' && html` checked`
    return html`<div class="wide"><label><input type="checkbox" ${named}${checked}> ${label}</label>${told}</div>`
  }
  const title = html`<label for="${id}">${label}</label>`
  if (choices) {
    const options = Object.entries(choices).map(
      ([key, text]) =>
        html`<option value="${key}"${key === value && html` selected`}>${text}</option>`,
    )
    return html`<div>${title}${told}<select ${named}>${options}</select></div>`
  }
  const isRole = name === 'role'
  const isWide = !isRole && name !== 'client'
  return html`<div${isWide && html` class="wide"`}>${title}${told}<input ${named} value="${value}" dir="auto" autocomplete="off" autocapitalize="none" spellcheck="false"${isRole && html` list="${id}-list"`}>${isRole && rolesOf(deps, `${id}-list`)}</div>`
}

/** A role is any text. These are known from the configuration. */
function rolesOf({ roles }: ConsoleDeps, id: string): Html {
  const known = new Set([DEFAULT_ROLE, ...roles.helpdeskRoles, ...roles.adminRoles])
  return html`<datalist id="${id}">${[...known].map(role => html`<option value="${role}"></option>`)}</datalist>`
}

/** The input of the operation. Throws a Failure that names the field that cannot be used. */
export function readForm({ fields, form }: ConsoleForm, typed: Typed, person: Explanation | null) {
  const known: Record<string, unknown> = person && form.isEdit ? person : {}
  const given = form.asks.flatMap(name => {
    const stored = String(known[name] ?? '')
    const text = typed[name] ?? stored
    if (fields[name]?.isRequired && text.trim() === '') throw new WrongUse('Fill this in.', name)
    if (text === stored) return []
    return [[name, fields[name]?.type === 'boolean' ? true : text]]
  })
  const values = parseFields(fields, Object.fromEntries(given))
  if (
    form.isEmailTyped &&
    canonicalEmail(typed.email ?? '') !== canonicalEmail(person?.email ?? '')
  ) {
    throw new WrongUse('This is not the email of the person.', 'email')
  }
  return { ...form.sends, ...values }
}

/** What is asked before the operation is done. */
export function questionOf(
  visit: Visit,
  shown: ConsoleForm,
  person: Explanation,
  refused: Refused | null,
): { title: string; main: Html } {
  const { name, email } = person
  const { question, about, isEmailTyped } = shown.form
  const title = question?.(name) ?? ''
  const error = refused?.field === 'email' ? refused.message : null
  const extra =
    isEmailTyped &&
    html`<div class="wide">
              <label for="email">To confirm, type <strong>${emailHtml(email)}</strong></label>
              <p class="error" id="email-error">${error}</p>
              <input id="email" name="email" inputmode="email" autocomplete="off" autocapitalize="none" spellcheck="false" value="${refused?.typed.email}" aria-describedby="email-error" aria-invalid="${String(error !== null)}">
            </div>`
  const main = html`${backTo(personPath(person.id), name)}
      <section class="card stack">
        <h1 tabindex="-1"${!refused && html` autofocus`}>${title}</h1>
        <p>${about}</p>
        ${formHtml(visit, shown, person, { refused, extra, kind: 'primary danger', cancel: personPath(person.id) })}
      </section>`
  return { title, main }
}
