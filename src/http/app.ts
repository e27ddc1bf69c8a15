// The public app: every hook of its own, and every route.
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { LoginAttempt, LoginOutcome } from '../login/login.ts'
import type { RefreshDeps } from '../session/refresh.ts'
import type { Page } from './page/page.ts'
import { cors, isListedOrigin, logRefusedOrigins } from './request/cors.ts'
import { refuseForeignLogins } from './request/csrf.ts'
import { jwksRoute } from './routes/jwks.ts'
import { type LoginBody, loginBody, loginRoute } from './routes/login.ts'
import { logoutRoute } from './routes/logout.ts'
import { assetRoute, pageRoute } from './routes/page.ts'
import { refreshRoute } from './routes/refresh.ts'
import {
  endOtherSessionsRoute,
  endSessionRoute,
  sessionRoute,
  sessionsRoute,
} from './routes/sessions.ts'
import { createServer, type ServerDeps } from './server.ts'

type AppDeps = ServerDeps & {
  sessions: RefreshDeps
  page: Page
  login: (attempt: LoginAttempt) => Promise<LoginOutcome>
}

export function buildApp(deps: AppDeps): FastifyInstance {
  const { config, login, page, track } = deps
  const sessions = {
    ...deps.sessions,
    isListedOrigin: (origin: string) => isListedOrigin(origin, config),
  }
  const { app, refuseOtherMethods } = createServer(deps, { onFirst: cors(config) })
  app.addHook('onSend', logRefusedOrigins(config))

  const auth = '/api/v1/auth'
  const tracked =
    <Request>(handler: (request: Request, reply: FastifyReply) => Promise<unknown>) =>
    (request: Request, reply: FastifyReply) =>
      track(() => handler(request, reply))
  const loginOptions = {
    schema: { body: loginBody },
    onRequest: refuseForeignLogins(sessions.isListedOrigin),
  }
  app.post<{ Body: LoginBody }>(`${auth}/login`, loginOptions, tracked(loginRoute(login)))
  app.post(`${auth}/refresh`, tracked(refreshRoute(sessions)))
  app.post(`${auth}/logout`, tracked(logoutRoute(sessions)))
  app.get(`${auth}/session`, sessionRoute(sessions))
  app.get(`${auth}/sessions`, sessionsRoute(sessions))
  app.delete(`${auth}/sessions`, tracked(endOtherSessionsRoute(sessions)))
  app.delete(`${auth}/sessions/:id`, tracked(endSessionRoute(sessions)))
  app.get('/.well-known/jwks.json', jwksRoute(sessions.keys))
  for (const url of ['/', '/login']) app.get(url, pageRoute(page, config.returnToOrigins))
  for (const [url, content] of page.assets) app.get(url, assetRoute(content))

  refuseOtherMethods()
  return app
}
