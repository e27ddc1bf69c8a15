// The public app: every route.
import type { FastifyInstance } from 'fastify'
import type { EndedFeed } from '../session/ended-feed.ts'
import type { IssueDeps } from '../session/issue-code.ts'
import type { RedeemDeps } from '../session/redeem-code.ts'
import type { RefreshDeps } from '../session/refresh.ts'
import { pageConfig } from './answer/envelope.ts'
import { PUBLIC_API } from './openapi/public-api.ts'
import type { Page } from './page/page.ts'
import { isListedOrigin } from './request/cors.ts'
import { refuseForeignLogins } from './request/csrf.ts'
import { CHANGE_PASSWORD_OPERATION, changePasswordRoute } from './routes/change-password.ts'
import {
  END_OTHER_SESSIONS_OPERATION,
  END_SESSION_OPERATION,
  endOtherSessionsRoute,
  endSessionRoute,
} from './routes/end-sessions.ts'
import { ENDED_FEED_OPERATION, endedFeedRoute } from './routes/ended-feed.ts'
import { showPageFailure, toTimeoutPage } from './routes/form-failures.ts'
import { endOthersFormRoute, endSessionFormRoute } from './routes/forms.ts'
import { JWKS_OPERATION, jwksRoute } from './routes/jwks.ts'
import { LOGIN_OPERATION, loginRoute } from './routes/login.ts'
import { addLoginForms, form } from './routes/login-forms.ts'
import { LOGOUT_OPERATION, logoutRoute } from './routes/logout.ts'
import { loginPageRoute, notFoundRoute, toLoginRoute } from './routes/page.ts'
import { CHALLENGE_OPERATION, challengeRoute } from './routes/passkey-challenge.ts'
import { REDEEM_CODE_OPERATION, redeemCodeRoute } from './routes/redeem-code.ts'
import { addReference } from './routes/reference.ts'
import { REFRESH_OPERATION, refreshRoute } from './routes/refresh.ts'
import {
  SECOND_FACTOR_OPERATION,
  type SecondFactorDeps,
  secondFactorRoute,
} from './routes/second-factor.ts'
import type { SessionAccess } from './routes/session-access.ts'
import {
  SESSION_OPERATION,
  SESSIONS_OPERATION,
  sessionRoute,
  sessionsRoute,
} from './routes/sessions.ts'
import { VERIFY_OPERATION, verifyRoute } from './routes/verify.ts'
import { createServer, type ServerDeps } from './server.ts'

/** The description of the API changes only with the version of the service and its brand. */
const CACHE_CONTROL = 'public, max-age=300'

type AppDeps = ServerDeps &
  SecondFactorDeps & {
    sessions: Omit<SessionAccess, 'isListedOrigin'> & RefreshDeps & IssueDeps & RedeemDeps
    endedFeed: EndedFeed
    page: Page
  }

export function buildApp(deps: AppDeps): FastifyInstance {
  const { config, login, passwordRules, canSetUp, passkeys, page } = deps
  const sessions = {
    ...deps.sessions,
    isListedOrigin: (origin?: string) => origin !== undefined && isListedOrigin(origin, config),
  }
  const { app, refuseOtherMethods } = createServer(deps, {
    origins: config,
    notFound: notFoundRoute(page),
    toTimeoutPage: toTimeoutPage(page),
  })
  addReference(app, page, PUBLIC_API, CACHE_CONTROL)

  const auth = '/api/v1/auth'
  const onRequest = refuseForeignLogins(sessions.isListedOrigin)
  app.post(`${auth}/login`, { ...LOGIN_OPERATION, onRequest }, loginRoute(login))
  app.post(
    `${auth}/password`,
    { ...CHANGE_PASSWORD_OPERATION, onRequest },
    changePasswordRoute({ login, passwordRules }),
  )
  app.post(
    `${auth}/second-factor`,
    { ...SECOND_FACTOR_OPERATION, onRequest },
    secondFactorRoute({ login, passwordRules, canSetUp, passkeys }),
  )
  const challenge = challengeRoute(passkeys, sessions.clock)
  app.get(`${auth}/passkey-challenge`, CHALLENGE_OPERATION, challenge)
  app.post(`${auth}/code`, REDEEM_CODE_OPERATION, redeemCodeRoute(sessions))
  app.post(`${auth}/refresh`, REFRESH_OPERATION, refreshRoute(sessions))
  app.post(`${auth}/logout`, LOGOUT_OPERATION, logoutRoute(sessions))
  app.get(`${auth}/session`, SESSION_OPERATION, sessionRoute(sessions))
  app.get(`${auth}/verify`, VERIFY_OPERATION, verifyRoute(sessions, config))
  app.get(`${auth}/sessions`, SESSIONS_OPERATION, sessionsRoute(sessions))
  app.delete(`${auth}/sessions`, END_OTHER_SESSIONS_OPERATION, endOtherSessionsRoute(sessions))
  app.delete(`${auth}/sessions/:id`, END_SESSION_OPERATION, endSessionRoute(sessions))
  app.get('/.well-known/jwks.json', JWKS_OPERATION, jwksRoute(sessions.keys))
  app.get('/.well-known/ended-sessions', ENDED_FEED_OPERATION, endedFeedRoute(deps.endedFeed))
  // Password managers open this address of any site when a password should be changed.
  app.get('/.well-known/change-password', async (_, reply) => reply.redirect('/login/password'))

  const pages = { page, sessions, login, passwordRules, canSetUp, passkeys, config }
  const showFailure = showPageFailure(page)
  for (const url of ['/', '/login']) app.get(url, pageConfig(showFailure), loginPageRoute(pages))
  addLoginForms(app, pages)
  for (const [url, route] of [
    ['/login/sessions/others/end', endOthersFormRoute],
    ['/login/sessions/:id/end', endSessionFormRoute],
  ] as const) {
    app.post(url, form(showFailure), route(pages))
    app.get(url, toLoginRoute(page))
  }
  refuseOtherMethods()
  return app
}
