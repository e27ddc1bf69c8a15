// The console: every route of it.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { pageConfig } from '../../http/answer/envelope.ts'
import { loginPage } from '../../http/page/forms.ts'
import { askingAgainPage } from '../../http/page/layout.ts'
import { showPageFailure } from '../../http/routes/form-failures.ts'
import { addLoginForms, form } from '../../http/routes/login-forms.ts'
import {
  doneOf,
  emailOf,
  frameOf,
  information,
  mustAskAgain,
  otpFieldOf,
  SAID_WITHOUT_SESSION,
  sendPage,
  visitorOf,
} from '../../http/routes/page.ts'
import { challengeRoute } from '../../http/routes/passkey-challenge.ts'
import { sendDenied } from '../../http/routes/session-access.ts'
import { OPERATIONS } from '../operations.ts'
import { changeRoute, questionRoute } from './change.ts'
import { toForms } from './forms.ts'
import { historyRoute } from './history.ts'
import { addRoute, peopleRoute } from './people.ts'
import { personRoute } from './person.ts'
import type { ConsoleDeps } from './visit.ts'

const PEOPLE = '/console/people'

export function addConsole(app: FastifyInstance, parts: Omit<ConsoleDeps, 'forms'>): void {
  const deps = { ...parts, forms: toForms(OPERATIONS) }
  const page = pageConfig(showPageFailure(deps.page))
  const change = form(showPageFailure(deps.page))
  for (const url of ['/', '/console']) {
    app.get(url, page, async (_, reply) => reply.redirect(PEOPLE))
  }
  app.get(PEOPLE, page, peopleRoute(deps))
  app.get(`${PEOPLE}/:id`, page, personRoute(deps))
  app.get('/console/history', page, historyRoute(deps))
  for (const operation of deps.forms) {
    const isAdding = operation.id === 'addUser'
    const url = isAdding ? PEOPLE : `${PEOPLE}/:id/${operation.form.path}`
    app.post(url, change, changeRoute(deps, operation))
    if (isAdding) app.get(`${PEOPLE}/new`, page, addRoute(deps, operation))
    else app.get(url, page, questionRoute(deps, operation))
  }
  app.get('/login', page, loginRoute(deps))
  addLoginForms(app, deps)
  const challenge = challengeRoute(deps.passkeys, deps.sessions.clock)
  app.get('/api/v1/auth/passkey-challenge', page, challenge)
}

/** A session leads from it to the console, or back to the page that needed one. `prompt=login` asks for another login. */
function loginRoute(deps: ConsoleDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const frame = frameOf(deps.page, request)
    const { prompt, return_to: asked } = request.query as Record<string, unknown>
    const access = await visitorOf(deps, request)
    if (access.kind === 'limited') return sendDenied(request, reply, access)
    if (access.kind === 'absent' && mustAskAgain(request)) {
      return sendPage(reply, askingAgainPage(frame, '/login'))
    }
    if (access.kind === 'granted' && prompt !== 'login') {
      return reply.redirect(isOurs(asked) ? asked : PEOPLE, 303)
    }
    const isEnded = access.kind === 'denied'
    const said = isEnded ? 'sessionEnded' : SAID_WITHOUT_SESSION.get(doneOf(request))
    const notice = said ? information(frame.text(said)) : null
    const otp = otpFieldOf(deps, request)
    return sendPage(reply, loginPage(frame, { email: emailOf(access), otp, notice, host: null }))
  }
}

/** A page of the console. */
function isOurs(asked: unknown): asked is string {
  return typeof asked === 'string' && /^\/console\/[\x21-\x5b\x5d-\x7e]*$/.test(asked)
}
