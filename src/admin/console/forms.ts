// The forms of operations: their fields, what is read from them, and the page that asks before it is done.
import type { FastifyRequest } from 'fastify'
import { DEFAULT_ROLE } from '../../domain/user.ts'
import { type Html, html, type Value } from '../../http/page/html.ts'
import type { Notice } from '../../http/page/layout.ts'
import { doneOf, information } from '../../http/routes/page.ts'
import { canonicalEmail } from '../../login/credentials.ts'
import { WrongUse } from '../../system/failures.ts'
import { parseFields } from '../api/route.ts'
import type { Field, Form, Operation } from '../operation.ts'
import type { AdminDeps } from '../operations/deps.ts'
import type { Explanation } from '../operations/explain-user.ts'
import { button, capitalized, emailOf, type Staff } from './layout.ts'
import type { ConsoleDeps } from './staff.ts'

/** An operation with its form, whose texts and path have their defaults. */
export type Shown = Operation & {
  id: string
  form: Form & {
    path: string
    title: string
    about: string
    label: string
    asks: readonly string[]
  }
}

/** What was sent, and what was wrong with it. */
export type Refused = { typed: Sent; field: string | undefined; message: string }
export type Sent = Partial<Record<string, string>>

/** A form on a person: every operation on a user that the console has, and that changes something. */
export function toShown(id: string, operation: Operation): Shown | null {
  const { form = {}, request, argument, fields } = operation
  const isOnUser = /:user|:id/.test(request ?? (argument === undefined ? ':user' : ''))
  const isShown = operation.for !== null && isOnUser && !request?.startsWith('GET ')
  const asks = form.asks ?? Object.keys(fields).filter(name => fields[name]?.only !== 'command')
  const path = form.path ?? operation.command?.split(' ')[1] ?? id
  const { summary: title, description: about = '' } = operation
  const question = form.question ?? operation.question
  const whole = { path, title, about, label: title, asks, ...(question && { question }), ...form }
  return isShown || id === 'addUser' ? { ...operation, id, form: whole } : null
}

export const personPath = (id: string) => `/console/people/${id}`

/** `seen` is what the person was when the page was made. */
export function hidden({ csrf }: Staff, person: Explanation | null): Html {
  return html`<input type="hidden" name="csrf" value="${csrf}">${person && html`<input type="hidden" name="seen" value="${person.updatedAt.toISOString()}">`}`
}

/** Its fields and its button. */
export function formOf(
  deps: ConsoleDeps,
  staff: Staff,
  { id, form, fields }: Shown,
  person: Explanation | null,
  { refused, extra, kind = '' }: { refused?: Refused | null; extra?: Value; kind?: string } = {},
): Html {
  const action = person ? `${personPath(person.id)}/${form.path}` : '/console/people'
  const known: Record<string, unknown> = person && form.isEdit ? person : {}
  const inputs = form.asks.map(name => {
    const initial = String(known[name] ?? fields[name]?.initial ?? '')
    const typed = refused ? (refused.typed[name] ?? '') : initial
    const error = refused?.field === name ? refused.message : null
    return fieldOf(deps, `${id}-${name}`, name, fields[name], typed, error)
  })
  return html`<form method="post" action="${action}" class="fields" novalidate>${hidden(staff, person)}
            ${inputs}${extra}
            ${button(form.label, kind)}
          </form>`
}

function fieldOf(
  deps: ConsoleDeps,
  id: string,
  name: string,
  field: Field | undefined,
  typed: string,
  error: string | null,
): Html {
  const label = html`<label for="${id}">${field?.label ?? capitalized(name)}</label>`
  const invalid = html` aria-describedby="${id}-error" aria-invalid="${String(error !== null)}"`
  const told = html`<p class="error" id="${id}-error">${error}</p>`
  if (field?.type === 'boolean') {
    return html`<div class="wide"><label><input type="checkbox" name="${name}"${typed && html` checked`}> ${field.label ?? capitalized(name)}</label>${told}</div>`
  }
  const choices = field?.choices ?? toChoices(field?.enum)
  if (choices) {
    return html`<div>${label}${selectOf(id, name, choices, typed, invalid)}${told}</div>`
  }
  const isRole = name === 'role'
  const list = isRole && html` list="${id}-list"`
  return html`<div${!isRole && html` class="wide"`}>${label}<input id="${id}" name="${name}" value="${typed}" dir="auto" autocomplete="off" autocapitalize="none" spellcheck="false"${invalid}${list}>${isRole && rolesOf(deps, `${id}-list`)}${told}</div>`
}

const toChoices = (values?: readonly string[]) =>
  values && Object.fromEntries(values.map(value => [value, capitalized(value)]))

export function selectOf(
  id: string,
  name: string,
  choices: Record<string, string>,
  chosen: string,
  more: Value = '',
): Html {
  const options = Object.entries(choices).map(
    ([value, text]) =>
      html`<option value="${value}"${value === chosen && html` selected`}>${text}</option>`,
  )
  return html`<select id="${id}" name="${name}"${more}>${options}</select>`
}

/** Roles are free text; these are known from the configuration. */
export function rolesOf({ roles }: ConsoleDeps, id: string): Html {
  const known = new Set([DEFAULT_ROLE, ...roles.helpdeskRoles, ...roles.adminRoles])
  return html`<datalist id="${id}">${[...known].map(role => html`<option value="${role}"></option>`)}</datalist>`
}

/** The values of the fields. Throws a Failure that names the first that cannot be used. */
export function readForm({ fields, form }: Shown, sent: Sent, person: Explanation | null) {
  const known: Record<string, unknown> = person && form.isEdit ? person : {}
  const given = form.asks.flatMap(name => {
    const typed = sent[name] ?? ''
    const field = fields[name]
    if (field?.isRequired && typed.trim() === '') throw new WrongUse('This is missing.', name)
    const isSame = typed === String(known[name] ?? '')
    if (isSame || (field?.enum && !field.enum.includes(typed))) return []
    return [[name, field?.type === 'boolean' ? true : typed]]
  })
  const values = parseFields(fields, Object.fromEntries(given))
  if (form.isEmailTyped && person && canonicalEmail(sent.email ?? '') !== person.email) {
    throw new WrongUse('This is not the email of the person.', 'email')
  }
  return { ...form.sends, ...values }
}

/** The page of an operation with a question. */
export function questionPage(
  deps: ConsoleDeps,
  staff: Staff,
  shown: Shown,
  person: Explanation,
  refused: Refused | null,
): { title: string; main: Html } {
  const { form } = shown
  const question = form.question?.(person.name) ?? ''
  const error = refused?.field === 'email' ? refused.message : null
  const typed =
    form.isEmailTyped &&
    html`<div class="wide">
              <label for="email">To confirm, type <strong>${emailOf(person.email)}</strong></label>
              <input id="email" name="email" inputmode="email" autocomplete="off" autocapitalize="none" spellcheck="false" value="${refused?.typed.email}" aria-describedby="email-error" aria-invalid="${String(error !== null)}"${!refused && html` autofocus`}>
              <p class="error" id="email-error">${error}</p>
            </div>`
  const cancel = html`<a class="button" href="${personPath(person.id)}">Cancel</a>`
  const main = html`<p class="detail"><a href="${personPath(person.id)}"><span aria-hidden="true">←</span> <bdi>${person.name}</bdi></a></p>
      <section class="card stack">
        <h1 tabindex="-1"${!form.isEmailTyped && !refused && html` autofocus`}>${question}</h1>
        <p>${form.about}</p>
        ${formOf(deps, staff, shown, person, { refused, extra: typed, kind: 'primary danger' })}
        ${cancel}
      </section>`
  return { title: question, main }
}

/** The parts of a query that are text, without those that are empty. */
export function queryOf({ query }: FastifyRequest): Sent {
  const given = Object.entries(Object(query)).flatMap(([name, value]) =>
    typeof value === 'string' && value.trim() !== '' ? [[name, value]] : [],
  )
  return Object.fromEntries(given)
}

/** What has just been done, by one of our forms. */
export function doneIn(request: FastifyRequest, all: Shown[]): Notice | null {
  const done = doneOf(request)
  const form = all.find(({ id }) => id === done)?.form
  return form ? information(form.done ?? `${form.title}: done.`) : null
}

type Read<T> = { items: T[]; next: string | number | null; refused: string | null }

/** A page of a list. `refused`: why what was typed cannot be used. */
export async function readList<T>(
  { list, fields }: Operation,
  admin: AdminDeps,
  filter: Sent,
  from: string | undefined,
  limit: number,
): Promise<Read<T>> {
  try {
    const values = parseFields(fields, filter)
    const position = from === undefined ? null : (list?.parsePosition('page')(from) ?? null)
    const page = await list?.read(admin, { named: '', ...values }, { from: position, limit })
    // The cast is true: an operation lists one kind of items.
    return { items: (page?.items ?? []) as T[], next: page?.next ?? null, refused: null }
  } catch (error) {
    if (!(error instanceof WrongUse)) throw error
    return { items: [], next: null, refused: error.message }
  }
}
