// POST of a form: performs its operation, and leads to the page that shows what it did. A refusal is the page again.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sendFailure, statusOf } from '../../http/answer/envelope.ts'
import { html } from '../../http/page/html.ts'
import { formOf as sentIn } from '../../http/request/body.ts'
import { setDoneCookie } from '../../http/request/cookies.ts'
import { sendPage } from '../../http/routes/page.ts'
import { toRefusal } from '../api/refusal.ts'
import type { Done } from '../operation.ts'
import type { Explanation } from '../operations/explain-user.ts'
import { personPath, questionPage, type Refused, readForm, type Shown } from './forms.ts'
import { consolePage, emailOf, type Staff, timeText } from './layout.ts'
import { addPage } from './people.ts'
import { sendPerson } from './person.ts'
import {
  adminDeps,
  type ConsoleDeps,
  findPerson,
  logRequest,
  refusalOf,
  sendNoPerson,
  sendNotAllowed,
  toLogin,
  withStaff,
} from './staff.ts'

/** The person was changed after the page had been made. */
const CHANGED_STATUS = statusOf('EMAIL_TAKEN')

export function changeRoute(deps: ConsoleDeps, all: Shown[], shown: Shown) {
  return withStaff(deps, async (staff, request, reply) => {
    const admin = adminDeps(deps, staff, request)
    const isAdding = shown.id === 'addUser'
    const person = isAdding ? null : await findPerson(admin, request)
    const refusal = refusalOf(deps, staff, shown, person)
    if (refusal) return sendNotAllowed(deps, staff, request, reply, refusal)
    if (!person && !isAdding) return sendNoPerson(deps, reply)

    const { seen = '', csrf: _, ...sent } = sentIn(request)
    const updatedAt = new Date(seen)
    let done: Done
    try {
      const input = readForm(shown, sent, person)
      if (shown.form.needsRecentLogin?.(input) && !staff.isRecent) {
        return toLogin(request, reply, { prompt: 'login' })
      }
      const { session } = request.params as { session?: string }
      const named = session ?? person?.id ?? ''
      const given = person ? { ...admin, seen: { id: person.id, updatedAt } } : admin
      done = await shown.run(given, { named, ...input })
    } catch (error) {
      const { code, details } = toRefusal(error)
      if (!details.message) return sendFailure(reply, code, details)
      const current = person && (await findPerson(admin, request))
      if (person && !current) return sendNoPerson(deps, reply)
      const isChanged = current !== null && +current.updatedAt !== +updatedAt
      const message = isChanged
        ? 'Nothing was done: the person was changed after this page had been made. Look at the history, then do it again if it is still right.'
        : details.message
      reply.code(isChanged ? CHANGED_STATUS : statusOf(code))
      logRequest(staff, request, reply.statusCode, person?.id)
      const refused = { id: shown.id, typed: sent, field: details.fields?.[0], message }
      return sendRefused(deps, all, shown, staff, request, reply, current, refused)
    }
    const { password, temporaryUntil, email, id } = Object(done.data)
    const path = personPath(person?.id ?? id)
    logRequest(staff, request, password ? 200 : 303, person?.id ?? id)
    if (password) {
      const name = person?.name ?? sent.name ?? ''
      const made = { name, email, password, temporaryUntil, path }
      return sendPage(reply, passwordPage(deps, staff, made))
    }
    setDoneCookie(reply, shown.id)
    const isGone = shown.id === 'deleteUser'
    return reply.redirect(`${isGone ? '/console/people' : path}?done=${shown.id}`, 303)
  })
}

/** GET: the page of its question; otherwise its address leads to the person. */
export function questionRoute(deps: ConsoleDeps, all: Shown[], shown: Shown) {
  return withStaff(deps, async (staff, request, reply) => {
    const person = await findPerson(adminDeps(deps, staff, request), request)
    const refusal = refusalOf(deps, staff, shown, person)
    if (refusal) return sendNotAllowed(deps, staff, request, reply, refusal)
    if (!person) return sendNoPerson(deps, reply)
    if (!shown.form.question) return reply.redirect(personPath(person.id), 303)
    if (shown.form.needsRecentLogin?.({}) && !staff.isRecent) {
      return toLogin(request, reply, { prompt: 'login' })
    }
    return sendRefused(deps, all, shown, staff, request, reply, person, null)
  })
}

/** The page of the form, again or for the first time. */
function sendRefused(
  deps: ConsoleDeps,
  all: Shown[],
  shown: Shown,
  staff: Staff,
  request: FastifyRequest,
  reply: FastifyReply,
  person: Explanation | null,
  refused: (Refused & { id: string }) | null,
): FastifyReply | Promise<FastifyReply> {
  if (person && !shown.form.question) {
    return sendPerson(deps, all, staff, request, reply, person, refused)
  }
  const content = person
    ? questionPage(deps, staff, shown, person, refused)
    : addPage(deps, staff, shown, refused)
  const notice = refused && ({ kind: 'error', text: refused.message } as const)
  const now = deps.admin.clock()
  return sendPage(reply, consolePage(deps.page, staff, { ...content, notice, isNarrow: true, now }))
}

type Made = { name: string; email: string; password: string; temporaryUntil: Date; path: string }

/** The answer to the form that made it, since nothing shows it again. */
function passwordPage({ page, sessions, admin }: ConsoleDeps, staff: Staff, made: Made): string {
  const { name, email, password, temporaryUntil, path } = made
  const now = admin.clock()
  const { host } = new URL(sessions.tokens.issuer)
  const title = 'Temporary password'
  const main = html`<p class="detail"><a href="${path}"><span aria-hidden="true">←</span> <bdi>${name}</bdi></a></p>
      <section class="card stack">
        <div>
          <h1 tabindex="-1" autofocus>${title}</h1>
          <p class="detail">For <bdi>${name}</bdi>, ${emailOf(email)}</p>
        </div>
        <div class="card secret label-row">
          <code id="secret" translate="no" dir="ltr">${password.split(/(?<=-)/).map(group => html`${group}<wbr>`)}</code>
          <button type="button" data-copied="Copied" hidden>Copy</button>
          <span class="said skip" aria-live="polite"></span>
        </div>
        <p class="notice" data-kind="warning"><span><strong>It is shown only now.</strong> If you lose it, give a new one.</span></p>
        <p>It is valid until <strong>${timeText(temporaryUntil, now)} UTC</strong>, or until it is used. All sessions have ended.</p>
        <div>
          <h2>Say this</h2>
          <ol class="say">
            <li>Open <strong>${host}/login</strong>.</li>
            <li>Log in with your email and this password. It has 5 groups of 4, with hyphens. It has no letter O, I or L: those are zero and one.</li>
            <li>Choose a new password, which only you know.</li>
          </ol>
        </div>
        <p><a class="button primary" href="${path}">Done</a></p>
      </section>`
  return consolePage(page, staff, { title, main, isNarrow: true, now })
}
