// GET /console/history: what administrators have changed, and the words for it.
import type { AuditAction, AuditEvent, AuditFacts } from '../../domain/audit.ts'
import { type Html, html } from '../../http/page/html.ts'
import { FOR_EVER } from '../operations/user.ts'
import { OPERATIONS } from '../operations.ts'
import { personPath } from './forms.ts'
import { shortTime, timeHtml } from './layout.ts'
import { type ListPage, sendList } from './lists.ts'
import { withStaff } from './staff.ts'
import type { ConsoleDeps } from './visit.ts'

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
  'users.read': 'List of people read',
  'database.purged': 'Database purged',
}
/** The facts that people understand. */
const LABELS: Record<string, string> = {
  ...{ email: 'email', name: 'name', role: 'role', factors: 'second factor' },
  ...{ temporaryUntil: 'temporary until', lockedUntil: 'until', expiresAt: 'until' },
}

const HISTORY: ListPage<AuditEvent> = {
  operation: OPERATIONS.listAudit,
  title: 'History',
  fields: ['target', 'since'],
  words: ['event', 'events', 'the last one first'],
  head: ['Time', 'Change', 'Person or thing', 'By'],
  toCells: (event, now) => [
    timeHtml(event.at, now),
    changeOf(event, now),
    event.targetId
      ? html`<a href="${personPath(event.targetId)}"><bdi>${event.target}</bdi></a>`
      : html`<bdi>${event.target}</bdi>`,
    html`<bdi>${actorOf(event)}</bdi>${event.by.kind !== 'user' && html`<br><span class="detail">${event.by.host}</span>`}`,
  ],
  more: 'Older events',
}

export function historyRoute(deps: ConsoleDeps) {
  const none = html`<section class="card"><h2>No such change is recorded</h2></section>`
  return withStaff(deps, visit => sendList(visit, HISTORY, null, () => none))
}

/** Such as "Details changed: role user → editor". */
export function changeOf({ action, before, after }: AuditEvent, now: Date): Html {
  const changes = Object.entries(LABELS).flatMap(([name, label]) => {
    const [old, current] = [before, after].map(facts => textOf(facts, name, now))
    const texts = [old, current].filter(text => text !== null)
    return old === current ? [] : [html`${label} <bdi>${texts.join(' → ')}</bdi>`]
  })
  // That a wait has ended says nothing about when it would have ended.
  const told = action === 'user.unlocked' ? [] : changes
  return html`<strong>${WORDS[action]}</strong>${told.map((change, i) => html`${i === 0 ? ': ' : ', '}${change}`)}`
}

function textOf(facts: AuditFacts | null, name: string, now: Date): string | null {
  const value = facts?.[name] ?? null
  if (value === null) return null
  if (!/(Until|At)$/.test(name)) return String(value)
  const time = new Date(String(value))
  return time >= FOR_EVER ? 'further notice' : shortTime(time, now)
}

export function actorOf({ by: { kind, name, host } }: AuditEvent): string {
  if (kind === 'person') return name
  return kind === 'token' ? `token ${name}` : `${name} on ${host}`
}
