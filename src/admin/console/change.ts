// The addresses of forms. POST performs the operation and leads to the page that shows what it did; a refusal is the page
// again. GET asks the question of the operation, if it has one.
import type { FastifyReply } from 'fastify'
import { sendFailure, statusOf } from '../../http/answer/envelope.ts'
import { html } from '../../http/page/html.ts'
import { formOf as bodyOf } from '../../http/request/body.ts'
import { setDoneCookie } from '../../http/request/cookies.ts'
import { toRefusal } from '../api/refusal.ts'
import type { Done } from '../operation.ts'
import type { Explanation } from '../operations/explain-user.ts'
import { personPath, questionOf, readForm } from './forms.ts'
import { backTo, emailOf, send, timeText } from './layout.ts'
import { sendAddPage } from './people.ts'
import { sendPerson } from './person.ts'
import {
  findPerson,
  logVisit,
  refusalOf,
  sendNoPerson,
  sendNotAllowed,
  sendToLogin,
  withStaff,
} from './staff.ts'
import type { ConsoleDeps, Refused, Shown, Visit } from './visit.ts'

const CHANGED_MEANWHILE =
  'Nothing was done: the person was changed after this page had been made, by an administrator or a login. Look at it, then do it again if it is still right.'

export function changeRoute(deps: ConsoleDeps, shown: Shown) {
  return withStaff(deps, async visit => {
    const { request, reply } = visit
    const { id, session } = request.params as { id?: string; session?: string }
    const person = id === undefined ? null : await findPerson(visit)
    const refusal = refusalOf(visit, shown, person)
    if (refusal) return sendNotAllowed(visit, refusal)
    if (id !== undefined && !person) return sendNoPerson(visit)

    const { seen = '', csrf: _, ...typed } = bodyOf(request)
    const updatedAt = new Date(seen)
    try {
      const input = readForm(shown, typed, person)
      if (isLoginNeeded(visit, shown, input)) return sendToLogin(visit, { prompt: 'login' })
      const admin = person ? { ...visit.admin, seen: { id: person.id, updatedAt } } : visit.admin
      const done = await shown.run(admin, { named: session ?? person?.id ?? '', ...input })
      return sendDone(visit, shown, person, done)
    } catch (error) {
      const { code, details } = toRefusal(error)
      if (!details.message) return sendFailure(reply, code, details)
      const current = person && (await findPerson(visit))
      if (person && !current) return sendNoPerson(visit)
      const isChanged = current !== null && +current.updatedAt !== +updatedAt
      reply.code(statusOf(isChanged ? 'EMAIL_TAKEN' : code))
      logVisit(visit, person?.id)
      const field = code === 'EMAIL_TAKEN' ? 'email' : details.fields?.[0]
      const refused = { id: shown.id, typed, field }
      // With the history, which tells what was done.
      if (isChanged) return sendPerson(visit, current, { ...refused, message: CHANGED_MEANWHILE })
      return sendForm(visit, shown, current, { ...refused, message: details.message })
    }
  })
}

export function questionRoute(deps: ConsoleDeps, shown: Shown) {
  return withStaff(deps, async visit => {
    const person = await findPerson(visit)
    const refusal = refusalOf(visit, shown, person)
    if (refusal) return sendNotAllowed(visit, refusal)
    if (!person) return sendNoPerson(visit)
    if (!shown.form.question) return visit.reply.redirect(personPath(person.id), 303)
    if (isLoginNeeded(visit, shown, {})) return sendToLogin(visit, { prompt: 'login' })
    return send(visit, { ...questionOf(visit, shown, person, null), isNarrow: true })
  })
}

function isLoginNeeded({ isRecent }: Visit, { form }: Shown, input: Record<string, unknown>) {
  return !isRecent && form.needsRecentLogin?.(input) === true
}

/** The page with the form, and what was typed. */
function sendForm(visit: Visit, shown: Shown, person: Explanation | null, refused: Refused) {
  if (!person) return sendAddPage(visit, shown, refused)
  if (!shown.form.question) return sendPerson(visit, person, refused)
  const notice = { kind: 'error', text: refused.message } as const
  return send(visit, { ...questionOf(visit, shown, person, refused), notice, isNarrow: true })
}

function sendDone(
  visit: Visit,
  shown: Shown,
  person: Explanation | null,
  { data, said }: Done,
): FastifyReply {
  const { reply } = visit
  // The cast is true: the data of an added person say all of it, and those of a new password the rest.
  const made = { ...person, ...data } as Made
  const isMade = Object.hasOwn({ ...data }, 'password')
  reply.code(isMade ? 200 : 303)
  logVisit(visit, made.id)
  if (isMade) return sendPassword(visit, made)
  const path = shown.id === 'deleteUser' ? '/console/people' : personPath(made.id)
  // A sentence without facts: there was nothing to change.
  const isChanged = typeof said !== 'string'
  if (isChanged) setDoneCookie(reply, shown.id)
  return reply.redirect(isChanged ? `${path}?done=${shown.id}` : path, 303)
}

type Made = { id: string; name: string; email: string; password: string; temporaryUntil: Date }

/** The answer to the form that made it, since nothing shows it again. */
function sendPassword(visit: Visit, { id, name, email, password, temporaryUntil }: Made) {
  const { host } = new URL(visit.deps.sessions.tokens.issuer)
  const title = 'Temporary password'
  const main = html`${backTo(personPath(id), name)}
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
        <p>It is valid until <strong>${timeText(temporaryUntil, visit.now)} UTC</strong>, or until it is used.</p>
        <div>
          <h2>Say this</h2>
          <ol class="say">
            <li>Open <strong>${host}/login</strong>.</li>
            <li>Log in with your email and this password. It has 5 groups of 4, with hyphens. It has no letter O, I or L: those are zero and one.</li>
            <li>Choose a new password, which only you know.</li>
          </ol>
        </div>
        <p><a class="button primary" href="${personPath(id)}">Done</a></p>
      </section>`
  return send(visit, { title, main, isNarrow: true })
}
