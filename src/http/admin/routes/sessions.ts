// Live sessions: lists those of a user, ends all of them or one.
import { endSession, endSessions } from '../../../admin/operations/sessions.ts'
import { parseId } from '../../../admin/terminal/arguments.ts'
import { isUuid } from '../../../identifiers.ts'
import { InvalidInput, paramOf, read, readLimit } from '../input.ts'
import { type Handler, userOf } from '../route.ts'

export const sessionsRoute: Handler = async (deps, request, query) => {
  const limit = readLimit(query)
  const afterId = read(query, 'after', parseId) ?? null
  const user = await userOf(deps, request)
  // One more row than asked for shows whether there is a next page.
  const page = { afterId, limit: limit + 1 }
  const found =
    afterId === null || isUuid(afterId)
      ? await deps.store.sessions.listLive(user.id, page, deps.clock())
      : null
  if (!found) throw new InvalidInput('after must be the id of a session of this user.', 'after')
  const sessions = found.slice(0, limit)
  return {
    data: { sessions, next: found.length > limit ? (sessions.at(-1)?.id ?? null) : null },
  }
}

export const endSessionsRoute: Handler = async (deps, request) => {
  const user = await userOf(deps, request)
  return { data: { ended: await endSessions(deps, user) } }
}

export const endSessionRoute: Handler = async (deps, request) => {
  await endSession(deps, parseId(paramOf(request, 'id')))
  return { data: {} }
}
