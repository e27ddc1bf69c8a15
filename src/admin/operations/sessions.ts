// Live sessions of users.

import { named, whole } from '../../http/openapi/operation.ts'
import { Failure, userNotFound, WrongUse } from '../../system/failures.ts'
import { isUuid } from '../../system/identifiers.ts'
import { SHOWN_SESSION } from '../api/schemas.ts'
import { parseId } from '../input/values.ts'
import { count, timeText } from '../layout.ts'
import { listOperation, operation } from '../operation.ts'
import { changeNow } from './deps.ts'
import { findUser } from './user.ts'

export const listSessions = listOperation(
  {
    command: 'sessions list',
    request: 'GET /users/:user/sessions',
    summary: 'List the live sessions of a user',
    description: 'In the order of their logins.',
    examples: ['ann@example.org'],
    for: 'helpdesk',
  },
  {
    items: 'sessions',
    schema: SHOWN_SESSION,
    parsePosition: () => parseId,
    async read(deps, { named }, { from: afterId, limit }) {
      const { id } = await findUser(deps, named)
      // One more row than asked for shows whether there is a next page.
      const page = { afterId, limit: limit + 1 }
      const isId = afterId === null || isUuid(afterId)
      const found = isId ? await deps.store.sessions.listLive(id, page, deps.clock()) : null
      if (!found) throw new WrongUse('after must be the id of a session of this user.', 'after')
      const items = found.slice(0, limit)
      return { items, next: found.length > limit ? (items.at(-1)?.id ?? null) : null }
    },
    toRow: session => ({
      id: session.id,
      'logged in': timeText(session.createdAt),
      'last used': timeText(session.lastUsedAt),
      ip: session.ip,
      'user agent': session.userAgent,
    }),
    say: ({ named }, listed) => (listed === 0 ? `${named} has no live sessions.` : null),
  },
)

export const endSessions = operation(
  {
    command: null,
    event: 'admin.sessions_ended',
    request: 'DELETE /users/:user/sessions',
    summary: 'End all sessions of a user',
    description: 'Known devices stay.',
    for: 'helpdesk',
    form: { path: 'sessions/end', done: 'All sessions have ended.', isElsewhere: true },
    data: named(
      'EndedSessions',
      whole({ ended: { type: 'integer', description: 'How many.', examples: [2] } }),
    ),
  },
  async (deps, { named }) => {
    const { id, email } = await findUser(deps, named)
    const ended = await deps.store.sessions.endAll(id, changeNow(deps))
    if (ended === null) throw userNotFound(email)
    const sentence = `Ended ${count(ended, 'session', 'sessions')} of ${email}.`
    return { data: { ended }, said: { facts: { email, ended }, sentence } }
  },
)

export const endSession = operation(
  {
    command: null,
    event: 'admin.session_ended',
    request: 'DELETE /sessions/:id',
    summary: 'End a session',
    description: 'Of any user.',
    for: 'helpdesk',
    form: { path: 'sessions/:session/end', done: 'The session has ended.', isElsewhere: true },
  },
  async (deps, { named }) => {
    const id = parseId(named)
    if (!isUuid(id) || !(await deps.store.sessions.endByAdministrator(id, changeNow(deps)))) {
      throw new Failure(`There is no live session ${id}.`, { code: 'not-found' })
    }
    return { said: { facts: { sessionId: id }, sentence: `Ended session ${id}.` } }
  },
)

export const endEverySession = operation(
  {
    command: null,
    event: 'admin.all_sessions_ended',
    request: null,
    summary: 'End all sessions of all users',
    description: 'Known devices stay.',
    for: null,
    question: () => 'End all sessions of all users?',
  },
  async deps => {
    const ended = await deps.store.sessions.endEvery(changeNow(deps))
    const sentence = `Ended ${count(ended, 'session', 'sessions')} of all users.`
    return { said: { facts: { ended }, sentence } }
  },
)
