// The addresses of forms. POST performs the operation and leads to the page that shows what it did; a refusal is the page
// again. GET asks the question of the operation, if it has one.
import type { FastifyReply } from 'fastify'
import { sendFailure, statusOf } from '../../http/answer/envelope.ts'
import { html } from '../../http/page/html.ts'
import { formOf } from '../../http/request/body.ts'
import { setDoneCookie } from '../../http/request/cookies.ts'
import { failed } from '../../http/routes/page.ts'
import { toRefusal } from '../api/refusal.ts'
import type { Done } from '../operation.ts'
import type { Explanation } from '../operations/explain-user.ts'
import { personPath, questionOf, readForm } from './forms.ts'
import { backTo, emailHtml, send, shortTime } from './layout.ts'
import { sendAddPage } from './people.ts'
import { sendPerson } from './person.ts'
import { findPerson, logVisit, rankOf, sendNoPerson, sendToLogin, withPerson } from './staff.ts'
import type { ConsoleDeps, ConsoleForm, Refused, Typed, Visit } from './visit.ts'

/** As for an email that is taken: another change came first. */
const CONFLICT = statusOf('EMAIL_TAKEN')
const CHANGED_MEANWHILE =
  'Nothing was done: the person was changed after this page had been made, by an administrator or a login. Look at it, then do it again if it is still right.'

export function changeRoute(deps: ConsoleDeps, shown: ConsoleForm) {
  return withPerson(deps, shown, async (visit, person) => {
    const { seen = '', csrf: _, ...typed } = formOf(visit.request)
    const { session } = visit.request.params as { session?: string }
    const updatedAt = new Date(seen)
    const isStale = (now: Explanation) => +now.updatedAt !== +updatedAt
    // So what was judged is what the page has shown, and what the transaction finds.
    if (person && isStale(person)) return sendStale(visit, shown, person, typed)
    try {
      const input = readForm(shown, typed, person)
      if (isLoginNeeded(visit, shown, person, input)) return sendToLogin(visit, true)
      const admin = person ? { ...visit.admin, seen: { id: person.id, updatedAt } } : visit.admin
      const done = await shown.run(admin, { named: session ?? person?.id ?? '', ...input })
      return sendDone(visit, shown, person, done)
    } catch (error) {
      const { code, details } = toRefusal(error)
      const { message, fields } = details
      if (!message) return sendFailure(visit.reply, code, details)
      const current = person && (await findPerson(visit))
      if (person && !current) return sendNoPerson(visit)
      if (current && isStale(current)) return sendStale(visit, shown, current, typed)
      visit.reply.code(statusOf(code))
      logVisit(visit, person?.id)
      const field = code === 'EMAIL_TAKEN' ? 'email' : fields?.[0]
      return sendForm(visit, shown, current, { id: shown.id, typed, field, message })
    }
  })
}

/** The page of the person has its history, too. */
function sendStale(visit: Visit, { id }: ConsoleForm, person: Explanation, typed: Typed) {
  visit.reply.code(CONFLICT)
  logVisit(visit, person.id)
  return sendPerson(visit, person, { id, typed, message: CHANGED_MEANWHILE })
}

export function questionRoute(deps: ConsoleDeps, shown: ConsoleForm) {
  return withPerson(deps, shown, async (visit, person) => {
    if (!person || !shown.form.question)
      return visit.reply.redirect(personPath(person?.id ?? ''), 303)
    if (isLoginNeeded(visit, shown, person, {})) return sendToLogin(visit, true)
    logVisit(visit, person.id)
    return send(visit, { ...questionOf(visit, shown, person, null), isNarrow: true })
  })
}

/** An open browser must not be enough to take over another account of the console either. */
function isLoginNeeded(
  { deps, isRecent }: Visit,
  { form }: ConsoleForm,
  person: Explanation | null,
  input: Record<string, unknown>,
): boolean {
  const isStaff = person !== null && rankOf(deps, person.role) !== null
  return !isRecent && (isStaff || form.needsRecentLogin?.(input) === true)
}

/** The page with the form, and what was typed. */
function sendForm(visit: Visit, shown: ConsoleForm, person: Explanation | null, refused: Refused) {
  if (!person) return sendAddPage(visit, shown, refused)
  if (!shown.form.question) return sendPerson(visit, person, refused)
  const notice = failed(refused.message)
  return send(visit, { ...questionOf(visit, shown, person, refused), notice, isNarrow: true })
}

function sendDone(
  visit: Visit,
  shown: ConsoleForm,
  person: Explanation | null,
  { data, said }: Done,
): FastifyReply {
  const { reply } = visit
  // The cast is true: the data of an added person say all of it, and those of a new password the rest.
  const made = { ...person, ...data } as Made
  const isMade = made.password !== undefined
  reply.code(isMade ? 200 : 303)
  logVisit(visit, made.id)
  if (isMade) return sendPassword(visit, made)
  const path = shown.id === 'deleteUser' ? '/console/people' : personPath(made.id)
  // A sentence without facts: there was nothing to change.
  const isChanged = typeof said !== 'string'
  if (isChanged) setDoneCookie(reply, shown.id)
  return reply.redirect(isChanged ? `${path}?done=${shown.id}` : path)
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
          <p class="detail">For <bdi>${name}</bdi>, ${emailHtml(email)}</p>
        </div>
        <div class="card secret label-row">
          <code id="secret" translate="no" dir="ltr">${password.split(/(?<=-)/).map(group => html`${group}<wbr>`)}</code>
          <button type="button" data-copied="Copied" hidden>Copy</button>
          <span class="said skip" aria-live="polite"></span>
        </div>
        <p class="notice" data-kind="warning"><span><strong>It is shown only now.</strong> If you lose it, give a new one.</span></p>
        <p>It is valid until <strong>${shortTime(temporaryUntil, visit.now)} UTC</strong>, or until it is used.</p>
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
