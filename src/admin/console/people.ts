// GET /console/people: finds people. GET /console/people/new: the form that adds one.
import { DEFAULT_ROLE, type ListedUser, type UserState } from '../../domain/user.ts'
import { type Html, html } from '../../http/page/html.ts'
import { failed } from '../../http/routes/page.ts'
import { canonicalEmail, problemWithEmail } from '../../login/credentials.ts'
import { OPERATIONS } from '../operations.ts'
import { formHtml, personPath } from './forms.ts'
import { backTo, badgeOf, emailHtml, send, timeHtml } from './layout.ts'
import { filterOf, type ListPage, queryOf, sendList } from './lists.ts'
import { logVisit, refusalOf, withPerson, withStaff } from './staff.ts'
import type { ConsoleDeps, ConsoleForm, Refused, Visit } from './visit.ts'

const PEOPLE: ListPage<ListedUser & { state: UserState }> = {
  operation: OPERATIONS.listUsers,
  title: 'People',
  fields: ['search', 'role', 'state', 'secondFactor', 'dormant'],
  words: ['person', 'people', 'in the order of their emails'],
  head: ['Person', 'Role', 'State', 'Two-step login', 'Last login'],
  toCells: (user, now) => [
    html`<a href="${personPath(user.id)}" dir="auto"><strong>${user.name}</strong></a><br>${emailHtml(user.email)}`,
    html`<bdi>${user.role}</bdi>`,
    badgeOf(user, now),
    user.secondFactor === 'none' ? 'Off' : 'On',
    user.lastLoginAt ? timeHtml(user.lastLoginAt, now) : 'None known',
  ],
  more: 'Next page',
}

/** A whole email leads to its person, so that it does not stay in the address. */
export function peopleRoute(deps: ConsoleDeps) {
  return withStaff(deps, async visit => {
    const filter = filterOf(PEOPLE, visit.request)
    const email = canonicalEmail(filter.search ?? '')
    const isEmail = problemWithEmail(email) === null
    const found = isEmail ? await visit.admin.store.users.findByEmail(email) : null
    if (found) {
      visit.reply.code(303)
      logVisit(visit, found.id)
      return visit.reply.redirect(personPath(found.id))
    }
    const mayAdd = refusalOf(visit, OPERATIONS.addUser, null) === null
    const add = mayAdd && html`<a class="button" href="/console/people/new">Add a person</a>`
    return sendList(visit, PEOPLE, add, isEnd =>
      isEmail ? unknownEmail(email, mayAdd) : nothingFound(isEnd),
    )
  })
}

function unknownEmail(email: string, mayAdd: boolean): Html {
  const query = new URLSearchParams({ email })
  return html`<section class="card stack">
        <h2>There is no person with the email ${emailHtml(email)}</h2>
        <p class="detail">A login with it fails like a wrong password. Ask for the spelling, or search for a part of the name.</p>
        <p>${mayAdd && html`<a class="button" href="/console/people/new?${String(query)}">Add this person</a>`}</p>
      </section>`
}

/** A page looks at 10,000 people at most. */
function nothingFound(isEnd: boolean): Html {
  return html`<section class="card stack">
        <h2>${isEnd ? 'There are no such people' : 'There are no such people among these'}</h2>
        <p class="detail">${isEnd ? 'Look for less, or for a shorter part of the name or email.' : 'The next page goes on after them.'}</p>
      </section>`
}

export function addRoute(deps: ConsoleDeps, shown: ConsoleForm) {
  return withPerson(deps, shown, visit => {
    const { email = '' } = queryOf(visit.request)
    const valid = shown.fields.valid?.input?.initial ?? ''
    return sendAddPage(visit, shown, {
      id: shown.id,
      typed: { email, role: DEFAULT_ROLE, valid },
      message: '',
    })
  })
}

export function sendAddPage(visit: Visit, shown: ConsoleForm, refused: Refused) {
  const { message } = refused
  const extra = html`<div class="detail">You see the temporary password on the next page, once. No mail is sent.</div>`
  const main = html`${backTo('/console/people', 'All people')}
      <section class="card stack">
        <h1>Add a person</h1>
        ${formHtml(visit, shown, null, { refused, extra, kind: 'primary', cancel: '/console/people' })}
      </section>`
  const notice = message === '' ? null : failed(message)
  return send(visit, { title: 'Add a person', main, notice, isNarrow: true })
}
