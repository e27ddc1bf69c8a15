// GET /console/history: what administrators have changed, the last change first.
import type { AuditAction, AuditEvent, AuditFacts } from '../../domain/audit.ts'
import { statusOf } from '../../http/answer/envelope.ts'
import { type Html, html } from '../../http/page/html.ts'
import { sendPage } from '../../http/routes/page.ts'
import { count } from '../layout.ts'
import { OPERATIONS } from '../operations.ts'
import { personPath, queryOf, readList, selectOf } from './forms.ts'
import { consolePage, table, timeOf, timeText } from './layout.ts'
import { adminDeps, type ConsoleDeps, logRequest, withStaff } from './staff.ts'

const PAGE_EVENTS = 25
const SINCE = {
  ...{ '': 'Any time', '24h': '1 day ago', '7d': '7 days ago' },
  ...{ '30d': '30 days ago', '365d': '1 year ago' },
}

const WORDS: Record<AuditAction, string> = {
  'user.added': 'Added',
  'user.imported': 'Imported',
  'user.changed': 'Details changed',
  'user.activated': 'Activated',
  'user.deactivated': 'Deactivated',
  'user.locked': 'Locked',
  'user.unlocked': 'Unlocked',
  'user.deleted': 'Deleted',
  'password.set': 'Password set',
  'second_factor.reset': 'Two-step login reset',
  'session.ended': 'Session ended',
  'sessions.ended': 'All sessions ended',
  'throttle.cleared': 'Waits cleared',
  'key.added': 'Key added',
  'key.removed': 'Key removed',
  'token.added': 'Token added',
  'token.revoked': 'Token revoked',
  'user.exported': 'Data of the person exported',
  'users.exported': 'All users exported',
  'users.read': 'List of users read',
  'database.purged': 'Database purged',
}
/** The fields that people understand. */
const SHOWN: Record<string, string> = {
  ...{ email: 'email', name: 'name', role: 'role', factors: 'second factor' },
  ...{ temporaryUntil: 'temporary until', lockedUntil: 'until', expiresAt: 'until' },
}

/** Such as "Details changed: role user → editor". */
export function changeOf({ action, before, after }: AuditEvent, now: Date): Html {
  const text = (facts: AuditFacts | null, name: string) => {
    const value = facts?.[name]
    if (value === null || value === undefined) return null
    return /(Until|At)$/.test(name) ? timeText(new Date(String(value)), now) : String(value)
  }
  const changes = Object.entries(SHOWN).flatMap(([name, label]) => {
    const [old, current] = [text(before, name), text(after, name)]
    if (old === current || (action === 'user.unlocked' && name === 'lockedUntil')) return []
    return [html`${label} <bdi>${[old, current].filter(value => value !== null).join(' → ')}</bdi>`]
  })
  const list = changes.map((change, i) => html`${i === 0 ? ': ' : ', '}${change}`)
  return html`${WORDS[action]}${list}`
}

export function actorOf({ by: { kind, name, host } }: AuditEvent): string {
  if (kind === 'person') return name
  return kind === 'token' ? `token ${name}` : `${name} on ${host}`
}

export function historyRoute(deps: ConsoleDeps) {
  return withStaff(deps, async (staff, request, reply) => {
    const { target = '', since = '', before } = queryOf(request)
    const filter = { ...(target && { target }), ...(since && { since }) }
    const admin = adminDeps(deps, staff, request)
    const listed = await readList<AuditEvent>(
      ...([OPERATIONS.listAudit, admin, filter, before, PAGE_EVENTS] as const),
    )
    const { items, next, refused } = listed
    if (refused) reply.code(statusOf('INVALID_REQUEST'))
    logRequest(staff, request, reply.statusCode)
    const now = admin.clock()
    const rows = items.map(event => [
      timeOf(event.at, now),
      changeOf(event, now),
      event.targetId
        ? html`<a href="${personPath(event.targetId)}"><bdi>${event.target}</bdi></a>`
        : html`<bdi>${event.target}</bdi>`,
      html`<bdi>${actorOf(event)}</bdi>${event.by.kind !== 'user' && html`<br><span class="detail">${event.by.host}</span>`}`,
    ])
    const more = new URLSearchParams({ ...filter, before: String(next) })
    const main = html`<div class="title-row"><h1>History</h1></div>
      <form class="card fields" method="get" action="/console/history" role="search">
        <div class="wide">
          <label for="target">Whole email, address or token</label>
          <input id="target" name="target" type="search" value="${target}" dir="auto" autocomplete="off" autocapitalize="none" spellcheck="false">
        </div>
        <div><label for="since">Since</label>${selectOf('since', 'since', SINCE, since)}</div>
        <button class="primary">Show</button>
      </form>
      ${table('What was changed, the last change first', ['Time', 'Change', 'Person or thing', 'By'], rows)}
      <nav class="title-row pages" aria-label="Pages">
        <span class="detail">${count(items.length, 'event', 'events')}, the last one first</span>
        ${next !== null && html`<a rel="next" href="/console/history?${String(more)}">Older events</a>`}
      </nav>`
    const notice = refused ? ({ kind: 'error', text: refused } as const) : null
    return sendPage(reply, consolePage(deps.page, staff, { title: 'History', main, notice, now }))
  })
}
