// GET /console/people/:id: why a person can or cannot log in, what helps, and everything else about the person.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AuditEvent } from '../../domain/audit.ts'
import type { Session } from '../../domain/session.ts'
import type { UserState } from '../../domain/user.ts'
import { describeDevice } from '../../http/page/device.ts'
import { initialsOf } from '../../http/page/fragments.ts'
import { type Html, html } from '../../http/page/html.ts'
import type { Notice } from '../../http/page/layout.ts'
import { textsFor } from '../../http/page/texts.ts'
import { sendPage } from '../../http/routes/page.ts'
import { toCountedClient } from '../../system/client-group.ts'
import { isUuid } from '../../system/identifiers.ts'
import type { Operation } from '../operation.ts'
import type { AdminStore } from '../operations/deps.ts'
import type { Explanation } from '../operations/explain-user.ts'
import { fieldsOfUser, notesOn, sentenceOf } from '../operations/explanation.ts'
import { OPERATIONS } from '../operations.ts'
import { doneIn, formOf, hidden, personPath, queryOf, type Refused, type Shown } from './forms.ts'
import { actorOf, changeOf } from './history.ts'
import {
  badgeOf,
  button,
  capitalized,
  consolePage,
  emailOf,
  iconOf,
  type Staff,
  timeOf,
  timeText,
} from './layout.ts'
import {
  adminDeps,
  type ConsoleDeps,
  findPerson,
  logRequest,
  refusalOf,
  sendNoPerson,
  withStaff,
} from './staff.ts'

const PAGE_SESSIONS = 10
const LAST_EVENTS = 10
/** Lists the last session first: the others than one that no user has. */
const NO_SESSION = '00000000-0000-0000-0000-000000000000'

export function personRoute(deps: ConsoleDeps, all: Shown[]) {
  return withStaff(deps, async (staff, request, reply) => {
    const { client: typed = '' } = queryOf(request)
    const client = toCountedClient(typed.trim())
    const person = await findPerson(adminDeps(deps, staff, request), request, client)
    if (!person) return sendNoPerson(deps, reply)
    logRequest(staff, request, 200, person.id)
    const message = typed && !client ? 'This is no IP address, such as 203.0.113.7.' : null
    const refused = message
      ? { id: 'client', typed: { client: typed }, field: 'client', message }
      : null
    return sendPerson(deps, all, staff, request, reply, person, refused)
  })
}

/** `refused`: the form that was sent from the page, with its id. */
export async function sendPerson(
  deps: ConsoleDeps,
  all: Shown[],
  staff: Staff,
  request: FastifyRequest,
  reply: FastifyReply,
  person: Explanation,
  refused: (Refused & { id: string }) | null,
): Promise<FastifyReply> {
  const { store, clock } = deps.admin
  const now = clock()
  const { id, name, email, role } = person
  const { sessions: from = null } = queryOf(request)
  const shown = await readSessions(store, id, isUuid(from) ? from.toLowerCase() : null, now)
  const events = await store.audit.listOfUser(person, { beforeId: null, limit: LAST_EVENTS })
  const may = (operation: Operation) => refusalOf(deps, staff, operation, person) === null
  const inPlace = all.filter(({ form }) => !form.isElsewhere && (form.isFor?.(person) ?? true))
  const actions = inPlace.filter(form => may(form) && !isButton(form, person))
  const refusals = inPlace.map(form => refusalOf(deps, staff, form, person))
  const notice: Notice | null = refused
    ? { kind: 'error', text: refused.message }
    : doneIn(request, all)
  const anchors = actions.map(({ id, form }) => html`<a href="#${id}">${form.title}</a> `)
  const main = html`<div class="title-row">
        <span id="initials" aria-hidden="true">${initialsOf(name)}</span>
        <div class="names">
          <p class="detail"><a href="/console/people"><span aria-hidden="true">←</span> All people</a></p>
          <h1><bdi>${name}</bdi></h1>
          <p class="detail">${emailOf(email)} · <bdi>${role}</bdi></p>
        </div>
        ${actions.length > 0 && html`<nav class="label-row detail" aria-label="On this page">${anchors}</nav>`}
      </div>
      ${verdictCard(
        deps,
        staff,
        person,
        inPlace.filter(({ form }) => form.helps?.(person)),
        now,
      )}
      <div class="columns">
        ${factsCard(person, refused, now)}
        <div>
          ${sessionsCard(staff, person, shown, may(OPERATIONS.endSessions), now)}
          ${historyCard(person, events, now)}
        </div>
      </div>
      ${
        actions.length > 0
          ? html`<div class="card actions">${actions.map(form => actionOf(deps, staff, form, person, refused))}</div>`
          : html`<p class="detail stack">${refusals[0]}</p>`
      }`
  return sendPage(reply, consolePage(deps.page, staff, { title: name, main, notice, now }))
}

/** Nothing has to be filled in or asked. */
const isSimple = ({ form }: Shown) => form.asks.length === 0 && !form.question
/** It stands beside the verdict. */
const isButton = (shown: Shown, person: Explanation) =>
  isSimple(shown) && Boolean(shown.form.helps?.(person))

const STATE_OF: Partial<Record<Explanation['verdict']['kind'], UserState>> = {
  'can-log-in': 'active',
  inactive: 'inactive',
  'must-wait': 'waiting',
  'must-change-password': 'waiting',
  'must-set-up-second-factor': 'waiting',
  'only-known-devices': 'waiting',
}

/** The sentence of "users show", and the one action that helps. */
function verdictCard(
  deps: ConsoleDeps,
  staff: Staff,
  person: Explanation,
  helping: Shown[],
  now: Date,
): Html {
  const words = { toTime: (moment: Date) => timeText(moment, now), advise: () => '' }
  const state = STATE_OF[person.verdict.kind] ?? 'locked'
  const help = helping[0]
  const refusal = help ? refusalOf(deps, staff, help, person) : null
  const notes = [...notesOn(person, words), ...(refusal ? [refusal] : [])]
  return html`<section class="verdict" data-state="${state}" aria-labelledby="verdict">
        ${iconOf(state)}
        <div class="names">
          <h2 id="verdict">${sentenceOf(person, words)}</h2>
          ${notes.map(note => html`<p>${note}</p>`)}
        </div>
        ${help && !refusal && helpOf(deps, staff, help, person)}
      </section>`
}

function helpOf(deps: ConsoleDeps, staff: Staff, shown: Shown, person: Explanation): Html {
  const { id, form } = shown
  if (isSimple(shown)) return formOf(deps, staff, shown, person, { kind: 'primary' })
  return html`<a class="button primary" href="#${id}">${form.title}</a>`
}

function factsCard(
  person: Explanation,
  refused: (Refused & { id: string }) | null,
  now: Date,
): Html {
  const {
    email: _,
    name: __,
    role: ___,
    state: ____,
    ...facts
  } = fieldsOfUser(person, now, moment => timeText(moment, now))
  const rows = Object.entries(facts).map(
    ([label, value]) => html`<div><dt>${capitalized(label)}</dt><dd>${value}</dd></div>
            `,
  )
  const error = refused?.id === 'client' ? refused.message : null
  return html`<section class="card facts" aria-labelledby="facts">
          <h2 id="facts">Facts</h2>
          <dl class="pairs">
            <div><dt>State</dt><dd>${badgeOf(person, now)}</dd></div>
            ${rows}
          </dl>
          <form class="fields" method="get" action="">
            <div><label for="client">Check one address</label><input id="client" name="client" value="${refused?.typed.client ?? person.client}" autocomplete="off" spellcheck="false" aria-describedby="client-error" aria-invalid="${String(error !== null)}"><p class="error" id="client-error">${error}</p></div>
            <button>Check</button>
          </form>
        </section>`
}

type Sessions = { items: Session[]; next: string | null; from: string | null }

async function readSessions(
  store: AdminStore,
  userId: string,
  from: string | null,
  now: Date,
): Promise<Sessions> {
  const page = { afterId: from, limit: PAGE_SESSIONS + 1, othersOf: NO_SESSION }
  const found = await store.sessions.listLive(userId, page, now)
  // The session from which it goes on may have been purged.
  if (!found) return readSessions(store, userId, null, now)
  const items = found.slice(0, PAGE_SESSIONS)
  return { items, next: found.length > PAGE_SESSIONS ? (items.at(-1)?.id ?? null) : null, from }
}

function sessionsCard(
  staff: Staff,
  person: Explanation,
  { items, next, from }: Sessions,
  mayEnd: boolean,
  now: Date,
): Html {
  const path = personPath(person.id)
  const form = (action: string, control: Html) =>
    html`<form method="post" action="${path}/${action}">${hidden(staff, person)}${control}</form>`
  const rows = items.map(({ id, userAgent, ip, createdAt, lastUsedAt }) => {
    const { icon, name } = describeDevice(userAgent, textsFor('en', undefined))
    const [opened, used] = [createdAt, lastUsedAt].map(time => timeOf(time, now))
    const end = button('End', '', `End: ${name}, ${ip}, logged in ${timeText(createdAt, now)}`)
    return html`<li class="session">
              ${icon}
              <div class="names">
                <p><strong dir="auto">${name}</strong></p>
                <p class="detail">${ip} · logged in ${opened} · last used ${used}</p>
              </div>
              ${mayEnd && form(`sessions/${id}/end`, end)}
            </li>
            `
  })
  const all = person.liveSessions > 1 && mayEnd
  const pages =
    (from ?? next) !== null &&
    html`<p class="pages label-row detail">
            ${from && html`<a href="${path}#sessions">Newest sessions</a>`}
            ${next && html`<a href="${path}?sessions=${next}#sessions">Older sessions</a>`}
          </p>`
  return html`<section class="card" aria-labelledby="sessions">
            <div class="title-row">
              <h2 id="sessions">Sessions</h2>
              ${all && form('sessions/end', button(`End all ${person.liveSessions}`))}
            </div>
            ${rows.length > 0 ? html`<ul role="list">${rows}</ul>` : html`<p class="detail">Not logged in.</p>`}
            ${pages}
          </section>`
}

function historyCard({ email }: Explanation, events: AuditEvent[], now: Date): Html {
  const rows = events.map(
    event =>
      html`<li>${timeOf(event.at, now)}<span>${changeOf(event, now)} <span class="detail">by <bdi>${actorOf(event)}</bdi></span></span></li>
            `,
  )
  return html`<section class="card" aria-labelledby="history">
            <div class="title-row">
              <h2 id="history">History</h2>
              <p class="detail"><a href="/console/history?${String(new URLSearchParams({ target: email }))}">All events</a></p>
            </div>
            <ol class="pairs events" role="list">${rows}</ol>
          </section>`
}

/** One of the rarer actions. */
function actionOf(
  deps: ConsoleDeps,
  staff: Staff,
  shown: Shown,
  person: Explanation,
  refused: (Refused & { id: string }) | null,
): Html {
  const { id, form } = shown
  const own = refused?.id === id ? refused : null
  const control = form.question
    ? html`<p><a class="button" href="${personPath(person.id)}/${form.path}">${form.label}…</a></p>`
    : formOf(deps, staff, shown, person, { refused: own })
  return html`<section aria-labelledby="${id}">
          <div>
            <h2 id="${id}">${form.title}</h2>
            <p class="detail">${form.about}</p>
          </div>
          ${control}
        </section>
        `
}
