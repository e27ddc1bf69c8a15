// The pages of lists: what is looked for, a table, and the way to the next page. Each is made of a list operation.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { statusOf } from '../../http/answer/envelope.ts'
import { type Html, html, type Value } from '../../http/page/html.ts'
import type { Notice } from '../../http/page/layout.ts'
import { doneCookieOf } from '../../http/request/cookies.ts'
import { failed, information } from '../../http/routes/page.ts'
import { WrongUse } from '../../system/failures.ts'
import { parseFields } from '../api/route.ts'
import { count } from '../layout.ts'
import type { Operation } from '../operation.ts'
import { fieldOf } from './forms.ts'
import { send, table } from './layout.ts'
import { AGAIN, logVisit } from './staff.ts'
import type { Typed, Visit } from './visit.ts'

const PAGE_ITEMS = 25

export type ListPage<T> = {
  operation: Operation
  /** Also names its path. */
  title: string
  /** The fields of the operation by which it looks. */
  fields: readonly string[]
  /** "person", "people", and their order. */
  words: readonly [one: string, several: string, order: string]
  head: readonly string[]
  toCells: (item: T, now: Date) => Value[]
  more: string
}

/** In an address, names have hyphens. */
const inQuery = (name: string) => name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)

/** The parts of the query that are text, and not empty. */
export function queryOf({ query }: FastifyRequest): Typed {
  const isText = ([, value]: [string, unknown]) => typeof value === 'string' && value.trim() !== ''
  return Object.fromEntries(Object.entries<string>(Object(query)).filter(isText))
}

export function filterOf<T>({ fields }: ListPage<T>, request: FastifyRequest): Typed {
  const query = queryOf(request)
  const given = fields.flatMap(name => {
    const value = query[inQuery(name)]
    return value === undefined ? [] : [[name, value]]
  })
  return Object.fromEntries(given)
}

/** What a form of the console has just done. */
export function doneIn({ request, deps }: Visit): Notice | null {
  // The cookie was set by the form. Other sites could name what was not done.
  const done = doneCookieOf(request)
  const { done: said } = queryOf(request)
  if (said === AGAIN) return information('You are logged in again. Please do it once more.')
  const form = deps.forms.find(({ id }) => id === done && id === said)?.form
  return form ? information(form.done ?? `${form.title}: done.`) : null
}

/** `action` stands beside the title, and `empty` in place of a table without rows. */
export async function sendList<T>(
  visit: Visit,
  page: ListPage<T>,
  action: Value,
  empty: (isEnd: boolean) => Html,
): Promise<FastifyReply> {
  const { deps, request, reply, now } = visit
  const { operation, title, fields, words, head, toCells, more } = page
  const filter = filterOf(page, request)
  const { items, next, refused } = await read<T>(visit, operation, filter)
  if (refused) reply.code(statusOf('INVALID_REQUEST'))
  logVisit(visit)
  const path = `/console/${title.toLowerCase()}`
  const [one, several, order] = words
  const inputs = fields.map(name => {
    const error = refused?.field === name ? refused.message : null
    const field = operation.fields[name]
    return fieldOf(deps, inQuery(name), inQuery(name), field, filter[name] ?? '', error)
  })
  const onward = new URLSearchParams()
  for (const [name, value = ''] of Object.entries(filter)) onward.set(inQuery(name), value)
  onward.set(operation.list?.positionName ?? 'after', String(next))
  const main = html`<div class="title-row"><h1>${title}</h1>${action}</div>
      <form class="card fields" method="get" action="${path}" role="search">
        ${inputs}
        <button class="primary">Find</button>
      </form>
      ${
        items.length > 0
          ? table(
              `${title}, ${order}`,
              head,
              items.map(item => toCells(item, now)),
            )
          : !refused && empty(next === null)
      }
      <nav class="title-row pages" aria-label="Pages">
        <span class="detail">${items.length > 0 && `${count(items.length, one, several)}, ${order}`}</span>
        ${next !== null && html`<a rel="next" href="${path}?${String(onward)}">${more}</a>`}
      </nav>`
  const notice = refused ? failed(refused.message) : doneIn(visit)
  return send(visit, { title, main, notice })
}

type Read<T> = { items: T[]; next: string | number | null; refused: WrongUse | null }

async function read<T>(
  { admin, request }: Visit,
  { fields, list }: Operation,
  filter: Typed,
): Promise<Read<T>> {
  try {
    const values = parseFields(fields, filter)
    const { positionName = 'after', parsePosition } = list ?? {}
    const position = queryOf(request)[positionName]
    const from = position === undefined ? null : (parsePosition?.(positionName)(position) ?? null)
    const page = await list?.read(admin, { named: '', ...values }, { from, limit: PAGE_ITEMS })
    // The cast is true: an operation lists one kind of items.
    return { items: (page?.items ?? []) as T[], next: page?.next ?? null, refused: null }
  } catch (error) {
    if (error instanceof WrongUse) return { items: [], next: null, refused: error }
    throw error
  }
}
