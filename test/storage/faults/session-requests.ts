// The operations of the public API on a session, and the feed of ended ones.
import type { Call } from '../../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  MINUTE_MS,
  ownChange,
  SECOND_MS,
} from '../../support/session-client.ts'
import type { Request, Requests } from './requests.ts'

export function sessionRequests(requests: Requests): Request[] {
  const { service, newSession, isLive } = requests
  const { store, call, now } = service
  const post = (path: string, more: Call) => call({ path: `${AUTH}${path}`, ...more })
  const get = (path: string, headers: Call['headers'] = {}) =>
    call({ method: 'GET', path: `${AUTH}${path}`, headers })
  const isEnded = (sessionId: string) => async () => !(await isLive(sessionId))

  /** The operations that only read, by the headers with which they are asked. */
  const reading = (title: string, prepareHeaders: (session: Session) => Call['headers']) =>
    ['/session', '/sessions', '/verify'].map(
      (path): Request => ({
        title: `GET ${path} ${title}`,
        success: 200,
        async prepare() {
          const session = await newSession()
          const headers = prepareHeaders(session)
          return { email: session.email, run: () => get(path, headers) }
        },
      }),
    )
  type Session = Awaited<ReturnType<typeof newSession>>

  return [
    {
      title: 'POST /refresh',
      success: 200,
      async prepare() {
        const { email, refreshToken } = await newSession()
        const run = () => post('/refresh', { body: { refreshToken } })
        return { email, run }
      },
    },
    {
      title: 'POST /refresh again by the same caller',
      success: 200,
      async prepare() {
        const { email, refreshToken } = await newSession()
        const run = () => post('/refresh', { body: { refreshToken } })
        await run()
        return { email, run }
      },
    },
    {
      title: 'POST /refresh with a token that another caller has used',
      success: 401,
      async prepare() {
        const { email, from, sessionId, refreshToken } = await newSession()
        await post('/refresh', { body: { refreshToken } })
        const run = () => post('/refresh', { from, body: { refreshToken } })
        return { email, run, isDone: isEnded(sessionId) }
      },
    },
    {
      title: 'POST /refresh by cookie',
      success: 200,
      async prepare() {
        const session = await newSession()
        return {
          email: session.email,
          run: () => post('/refresh', { headers: ownChange(session) }),
        }
      },
    },
    ...(['refresh token', 'access token', 'cookie'] as const).map(
      (by): Request => ({
        title: `POST /logout by ${by}`,
        success: 200,
        async prepare() {
          const session = await newSession()
          const shown = {
            'refresh token': { body: { refreshToken: session.refreshToken } },
            'access token': { headers: bearer(session.accessToken) },
            cookie: { headers: ownChange(session) },
          }[by]
          const run = () => post('/logout', shown)
          return { email: session.email, run, isDone: isEnded(session.sessionId) }
        },
      }),
    ),
    ...(['/sessions', '/sessions/{id}'] as const).map(
      (path): Request => ({
        title: `DELETE ${path}`,
        success: 200,
        async prepare() {
          const other = await newSession()
          const { accessToken } = await requests.logIn(other.email)
          const address = `${AUTH}${path.replace('{id}', other.sessionId)}`
          const run = () => call({ method: 'DELETE', path: address, headers: bearer(accessToken) })
          return { email: other.email, run, isDone: isEnded(other.sessionId) }
        },
      }),
    ),
    ...reading('by access token', ({ accessToken }) => bearer(accessToken)),
    ...reading('by a cookie whose use is noted', session => {
      service.advance(MINUTE_MS)
      return cookie(session.cookie)
    }),
    {
      title: 'GET /.well-known/ended-sessions',
      success: 200,
      async prepare() {
        const { email, sessionId } = await newSession()
        await store.sessions.end(sessionId, now())
        return {
          email,
          run() {
            // All callers share one read in a second, also one that failed.
            service.advance(SECOND_MS)
            return call({ method: 'GET', path: '/.well-known/ended-sessions' })
          },
          isDone: async ({ text }) => text.includes(sessionId),
        }
      },
    },
  ]
}
