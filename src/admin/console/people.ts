// GET /console/people: finds people. GET /console/people/new: the form that adds one.
import type { ListedUser, UserState } from '../../domain/user.ts'
import { USER_STATES } from '../../domain/user.ts'
import { statusOf } from '../../http/answer/envelope.ts'
import { type Html, html } from '../../http/page/html.ts'
import type { Notice } from '../../http/page/layout.ts'
import { sendPage } from '../../http/routes/page.ts'
import { canonicalEmail, problemWithEmail } from '../../login/credentials.ts'
import { count } from '../layout.ts'
import { OPERATIONS } from '../operations.ts'
import {
  doneIn,
  formOf,
  personPath,
  queryOf,
  type Refused,
  readList,
  rolesOf,
  type Sent,
  type Shown,
  selectOf,
} from './forms.ts'
import { badgeOf, capitalized, consolePage, emailOf, type Staff, table, timeOf } from './layout.ts'
import {
  adminDeps,
  type ConsoleDeps,
  logRequest,
  refusalOf,
  sendNotAllowed,
  withStaff,
} from './staff.ts'

const PAGE_PEOPLE = 25
const STATES = Object.fromEntries(USER_STATES.map(state => [state, capitalized(state)]))
const ANY = { '': 'Any' }
const FIELDS = ['search', 'state', 'role', 'secondFactor', 'dormant']

export function peopleRoute(deps: ConsoleDeps, all: Shown[]) {
  return withStaff(deps, async (staff, request, reply) => {
    const admin = adminDeps(deps, staff, request)
    const { after, 'second-factor': secondFactor, ...query } = queryOf(request)
    const asked: Sent = { ...query, ...(secondFactor && { secondFactor }) }
    const filter = Object.fromEntries(
      FIELDS.flatMap(name => (asked[name] ? [[name, asked[name]]] : [])),
    )
    const email = canonicalEmail(filter.search ?? '')
    const isEmail = !problemWithEmail(email)
    const found = isEmail ? await admin.store.users.findByEmail(email) : null
    if (found) return reply.redirect(personPath(found.id), 303)
    const listed = await readList<Listed>(OPERATIONS.listUsers, admin, filter, after, PAGE_PEOPLE)
    const { refused, items, next } = listed
    if (refused) reply.code(statusOf('INVALID_REQUEST'))
    logRequest(staff, request, reply.statusCode)
    const notice: Notice | null = refused ? { kind: 'error', text: refused } : doneIn(request, all)
    const now = admin.clock()
    const mayAdd = refusalOf(deps, staff, OPERATIONS.addUser, null) === null
    const main = html`<div class="title-row">
        <h1>People</h1>
        ${mayAdd && html`<a class="button" href="/console/people/new">Add a person</a>`}
      </div>
      ${filterForm(deps, filter)}
      ${items.length > 0 ? tableOf(items, now) : emptyCard(filter, isEmail ? email : null, next, mayAdd)}
      <nav class="title-row pages" aria-label="Pages">
        <span class="detail">${count(items.length, 'person', 'people')}, in the order of their emails</span>
        ${next !== null && html`<a rel="next" href="${addressOf(filter, next)}">Next page</a>`}
      </nav>`
    return sendPage(reply, consolePage(deps.page, staff, { title: 'People', main, notice, now }))
  })
}

type Listed = ListedUser & { state: UserState }

function addressOf({ secondFactor, ...filter }: Sent, after: string | number): string {
  const query = { ...filter, ...(secondFactor && { 'second-factor': secondFactor }), after }
  return `/console/people?${new URLSearchParams(query as Record<string, string>)}`
}

function filterForm(deps: ConsoleDeps, filter: Sent): Html {
  const select = (name: string, label: string, choices: Record<string, string>, chosen = '') =>
    html`<div><label for="${name}">${label}</label>${selectOf(name, name, { ...ANY, ...choices }, chosen)}</div>`
  return html`<form class="card fields" method="get" action="/console/people" role="search">
        <div class="wide">
          <label for="search">Name or email</label>
          <input id="search" name="search" type="search" value="${filter.search}" dir="auto" autocomplete="off" spellcheck="false" autocapitalize="none">
        </div>
        <div>
          <label for="role">Role</label>
          <input id="role" name="role" value="${filter.role}" dir="auto" autocomplete="off" spellcheck="false" list="roles">${rolesOf(deps, 'roles')}
        </div>
        ${select('state', 'State', STATES, filter.state)}
        ${select('second-factor', 'Two-step login', { none: 'Off', any: 'On' }, filter.secondFactor)}
        ${select('dormant', 'Last login', { '90d': 'Not for 90 days', '365d': 'Not for a year' }, filter.dormant)}
        <button class="primary">Find</button>
      </form>`
}

function tableOf(users: Listed[], now: Date): Html {
  const head = ['Person', 'Role', 'State', 'Two-step login', 'Last login']
  const rows = users.map(user => [
    html`<a href="${personPath(user.id)}" dir="auto"><strong>${user.name}</strong></a><br>${emailOf(user.email)}`,
    html`<span dir="auto">${user.role}</span>`,
    badgeOf(user, now),
    user.secondFactor === 'none' ? 'Off' : 'On',
    user.lastLoginAt ? timeOf(user.lastLoginAt, now) : 'Not known',
  ])
  return table('People, in the order of their emails', head, rows)
}

/** A page may be empty before the end: each looks at 10,000 users. */
function emptyCard(filter: Sent, email: string | null, next: unknown, mayAdd: boolean): Html {
  const isAll = Object.keys(filter).length === 0
  const title = email
    ? html`There is no person with the email ${emailOf(email)}.`
    : next === null
      ? 'There are no such people.'
      : 'There are no such people among these.'
  const advice = email
    ? 'A login with it fails like a wrong password. Ask for the spelling, or search for a part of the name.'
    : next === null
      ? 'Search for a shorter part of the name or email.'
      : 'The next page goes on with the people after them.'
  const add = `/console/people/new?${new URLSearchParams({ email: email ?? '' })}`
  return html`<section class="card stack" aria-labelledby="empty">
        <div><h2 id="empty">${title}</h2>${!isAll && html`<p class="detail">${advice}</p>`}</div>
        <p class="fields">${!isAll && html`<a class="button" href="/console/people">Show everyone</a>`} ${email && mayAdd && html`<a class="button" href="${add}">Add this person</a>`}</p>
      </section>`
}

export function addRoute(deps: ConsoleDeps, shown: Shown) {
  return withStaff(deps, async (staff, request, reply) => {
    const refusal = refusalOf(deps, staff, shown, null)
    if (refusal) return sendNotAllowed(deps, staff, request, reply, refusal)
    const typed = { valid: shown.fields.valid?.initial ?? '', ...queryOf(request) }
    const content = addPage(deps, staff, shown, { typed, field: undefined, message: '' })
    const page = { ...content, isNarrow: true, now: deps.admin.clock() }
    return sendPage(reply, consolePage(deps.page, staff, page))
  })
}

export function addPage(deps: ConsoleDeps, staff: Staff, shown: Shown, refused: Refused | null) {
  const main = html`<p class="detail"><a href="/console/people"><span aria-hidden="true">←</span> All people</a></p>
      <section class="card stack">
        <h1>Add a person</h1>
        ${formOf(deps, staff, shown, null, { refused, kind: 'primary' })}
        <p class="detail">You see the temporary password on the next page, once. No mail is sent.</p>
        <p><a class="button" href="/console/people">Cancel</a></p>
      </section>`
  return { title: 'Add a person', main }
}
