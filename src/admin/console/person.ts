// GET /console/people/:id: why a person can or cannot log in, what helps, and everything else about the person.
import type { FastifyReply } from 'fastify'
import type { Session } from '../../domain/session.ts'
import type { UserState } from '../../domain/user.ts'
import { statusOf } from '../../http/answer/envelope.ts'
import { describeDevice } from '../../http/page/device.ts'
import { breakable, initialsOf } from '../../http/page/fragments.ts'
import { type Html, html } from '../../http/page/html.ts'
import { failed } from '../../http/routes/page.ts'
import { listOwnSessions } from '../../session/own-sessions.ts'
import { toCountedClient } from '../../system/client-group.ts'
import { isUuid } from '../../system/identifiers.ts'
import { count } from '../layout.ts'
import type { Explanation } from '../operations/explain-user.ts'
import { fieldsOfUser, notesOn, sentenceOf } from '../operations/explanation.ts'
import { OPERATIONS } from '../operations.ts'
import { fieldOf, formHtml, hidden, personPath } from './forms.ts'
import { actorOf, changeOf } from './history.ts'
import {
  backTo,
  badgeOf,
  button,
  capitalized,
  consoleFrame,
  emailHtml,
  send,
  shortTime,
  stateIcon,
  timeHtml,
} from './layout.ts'
import { doneIn, queryOf } from './lists.ts'
import { findPerson, logVisit, refusalOf, sendNoPerson, withStaff } from './staff.ts'
import type { ConsoleDeps, ConsoleForm, Refused, Visit } from './visit.ts'

const PAGE_SESSIONS = 10
const LAST_EVENTS = 10

export function personRoute(deps: ConsoleDeps) {
  return withStaff(deps, async visit => {
    const { client: typed = '' } = queryOf(visit.request)
    const client = toCountedClient(typed.trim())
    const person = await findPerson(visit, client)
    if (!person) return sendNoPerson(visit)
    const isWrong = typed !== '' && client === null
    if (isWrong) visit.reply.code(statusOf('INVALID_REQUEST'))
    logVisit(visit, person.id)
    const message = 'This is no IP address such as 203.0.113.7.'
    const refused = { id: 'client', typed: { client: typed }, message }
    return sendPerson(visit, person, isWrong ? refused : null)
  })
}

/** `refused`: the form of the page that was sent. */
export async function sendPerson(
  visit: Visit,
  person: Explanation,
  refused: Refused | null,
): Promise<FastifyReply> {
  const { deps, admin, request } = visit
  const { store } = admin
  const { name } = person
  const { sessions: from = null } = queryOf(request)
  const sessions = await readSessions(visit, person, isUuid(from) ? from.toLowerCase() : null)
  const events = await store.audit.listOfUser(person, { beforeId: null, limit: LAST_EVENTS })
  const useful = deps.forms.filter(
    ({ form }) => !form.isElsewhere && (form.isFor?.(person) ?? true),
  )
  const helping = useful.find(({ form }) => form.helps?.(person))
  const refusals = useful.map(shown => refusalOf(visit, shown, person))
  const allowed = useful.filter((_, i) => refusals[i] === null)
  // A simple one that helps stands beside the verdict.
  const actions = allowed.filter(shown => shown !== helping || !isSimple(shown))
  const links = actions.map(({ id, form }) => html`<a href="#${id}">${form.title}</a> `)
  const cards = actions.map(shown => actionOf(visit, shown, person, refused))
  const why = refusals.find(Boolean)
  const main = html`<div class="title-row">
        <span id="initials" aria-hidden="true">${initialsOf(name)}</span>
        <div class="names">
          ${backTo('/console/people', 'All people')}
          <h1><bdi>${name}</bdi></h1>
          <p class="detail">${emailHtml(person.email)} · <bdi>${person.role}</bdi></p>
        </div>
        ${links.length > 0 && html`<nav class="label-row detail" aria-label="On this page">${links}</nav>`}
      </div>
      ${verdictOf(visit, person, helping)}
      <div class="columns">
        ${factsOf(visit, person, refused)}
        <div>
          ${sessionsOf(visit, person, sessions)}
          <section class="card" aria-labelledby="history">
            <div class="title-row">
              <h2 id="history">History</h2>
              <p class="detail"><a href="/console/history?${String(new URLSearchParams({ target: person.email }))}">All events</a></p>
            </div>
            <ol class="pairs events" role="list">${events.map(
              event => html`<li>${timeHtml(event.at, visit.now)}<span>${changeOf(event, visit.now)} <span class="detail">by <bdi>${actorOf(event)}</bdi></span></span></li>
            `,
            )}</ol>
          </section>
        </div>
      </div>
      ${cards.length > 0 ? html`<div class="card actions">${cards}</div>` : html`<p class="card detail">${why}</p>`}`
  const notice = refused ? failed(refused.message) : doneIn(visit)
  return send(visit, { title: name, main, notice })
}

/** Nothing has to be filled in, or asked. */
const isSimple = ({ form }: ConsoleForm) => form.asks.length === 0 && !form.question

const STATE_OF: Partial<Record<Explanation['verdict']['kind'], UserState>> = {
  'can-log-in': 'active',
  inactive: 'inactive',
  'must-wait': 'waiting',
  'must-change-password': 'waiting',
  'must-set-up-second-factor': 'waiting',
  'only-known-devices': 'waiting',
}

/** The sentence of "users show", and the one action that helps. */
function verdictOf(visit: Visit, person: Explanation, helping: ConsoleForm | undefined): Html {
  const words = { toTime: (moment: Date) => shortTime(moment, visit.now), advise: () => '' }
  const state = STATE_OF[person.verdict.kind] ?? 'locked'
  const refusal = helping ? refusalOf(visit, helping, person) : null
  const [before = '', after] = sentenceOf(person, words).split(person.email)
  const { verdict } = person
  const waitMs = verdict.kind === 'must-wait' ? +verdict.until - +visit.now : 0
  const wait = count(Math.ceil(waitMs / 60_000), 'minute', 'minutes')
  const notes = [
    waitMs > 0 && `The wait ends by itself in ${wait}.`,
    ...notesOn(person, words),
    refusal && `${helping?.form.label}: ${refusal}`,
  ]
  const help =
    helping && isSimple(helping)
      ? formHtml(visit, helping, person, { kind: 'primary' })
      : helping && html`<a class="button primary" href="#${helping.id}">${helping.form.title}</a>`
  return html`<section class="verdict" data-state="${state}" aria-labelledby="verdict">
        ${stateIcon(state)}
        <div class="names">
          <h2 id="verdict">${before}${breakable(person.email)}${after}</h2>
          ${notes.map(note => html`${note && html`<p>${note}</p>`}`)}
        </div>
        ${refusal === null && help}
      </section>`
}

/** What "users show" lists, and the check of one address. */
function factsOf({ deps, now }: Visit, person: Explanation, refused: Refused | null): Html {
  const shown = fieldsOfUser(person, now, moment => shortTime(moment, now))
  const rows = Object.entries(shown).map(([label, value]) => {
    const isElsewhere = ['email', 'name', 'role', 'id'].includes(label)
    const text = label === 'state' ? badgeOf(person, now) : capitalized(value)
    const name = label === 'second factor' ? 'Two-step login' : capitalized(label)
    return isElsewhere ? html`` : html`<div><dt>${name}</dt><dd>${text}</dd></div>`
  })
  const { client } = OPERATIONS.getUser.fields
  const wrong = refused?.id === 'client' ? refused : null
  const value = wrong?.typed.client ?? person.client ?? ''
  return html`<section class="card facts" aria-labelledby="facts">
          <h2 id="facts">Facts</h2>
          <dl class="pairs">${rows}<div><dt>ID</dt><dd><code class="detail">${person.id}</code></dd></div></dl>
          <form class="fields" method="get" action="${personPath(person.id)}">
            ${fieldOf(deps, 'client', 'client', client, value, wrong?.message)}
            <button>Check</button>
          </form>
        </section>`
}

/** The first page, if that session has been purged. */
async function readSessions(
  visit: Visit,
  user: Explanation,
  from: string | null,
): Promise<Sessions> {
  const page = { afterId: from, limit: PAGE_SESSIONS, isLastFirst: true } as const
  const listed = await listOwnSessions(visit.admin, { user }, page)
  return listed ? { ...listed, from } : readSessions(visit, user, null)
}

type Sessions = { sessions: Session[]; from: string | null; next: string | null }

function sessionsOf(visit: Visit, person: Explanation, { sessions, from, next }: Sessions): Html {
  const { deps, now } = visit
  const texts = consoleFrame(deps.page)
  const path = personPath(person.id)
  const mayEnd = refusalOf(visit, OPERATIONS.endSessions, person) === null
  const form = (action: string, control: Html) =>
    mayEnd &&
    html`<form method="post" action="${path}/sessions/${action}">${hidden(visit, person)}${control}</form>`
  const rows = sessions.map(({ id, userAgent, ip, createdAt, lastUsedAt }) => {
    const { icon, name } = describeDevice(userAgent, texts)
    const label = `End: ${name}, ${ip}, logged in ${shortTime(createdAt, now)}`
    return html`<li class="session">
              ${icon}
              <div class="names">
                <p><strong dir="auto">${name}</strong></p>
                <p class="detail">${ip} · logged in ${shortTime(createdAt, now)} · last used ${shortTime(lastUsedAt, now)}</p>
              </div>
              ${form(`${id}/end`, button('End', '', label))}
            </li>
            `
  })
  return html`<section class="card" aria-labelledby="sessions">
            <div class="title-row">
              <h2 id="sessions">Sessions</h2>
              ${person.liveSessions > 1 && form('end', button(`End all ${person.liveSessions}`))}
            </div>
            ${rows.length > 0 ? html`<ul role="list">${rows}</ul>` : html`<p class="detail">Not logged in.</p>`}
            <p class="pages label-row detail">${from && html`<a href="${path}#sessions">Newest sessions</a>`}${next && html`<a href="${path}?sessions=${next}#sessions">Older sessions</a>`}</p>
          </section>`
}

/** One of the rarer actions. */
function actionOf(
  visit: Visit,
  shown: ConsoleForm,
  person: Explanation,
  refused: Refused | null,
): Html {
  const { id, form } = shown
  const control = form.question
    ? html`<p><a class="button" href="${personPath(person.id)}/${form.path}">${form.title}…</a></p>`
    : formHtml(visit, shown, person, { refused: refused?.id === id ? refused : null })
  return html`<section aria-labelledby="${id}">
          <div>
            <h2 id="${id}">${form.title}</h2>
            <p class="detail">${form.about}</p>
          </div>
          ${control}
        </section>
        `
}
