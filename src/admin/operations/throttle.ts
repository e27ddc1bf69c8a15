// The operations on the throttle: shows failures and waits, and ends them.
import { setTimeout as sleep } from 'node:timers/promises'
import { named, whole } from '../../http/openapi/operation.ts'
import { clientScopes } from '../../login/scopes.ts'
import { BLOCK_CACHED_MS } from '../../login/throttle.ts'
import { WrongUse } from '../../system/failures.ts'
import { CLIENT_FIELD, countField, FOUND_THROTTLE, THROTTLE_LIST } from '../api/schemas.ts'
import { parseEmail } from '../input/values.ts'
import { count, createTable, fieldLines, timeText } from '../layout.ts'
import { type Done, operation } from '../operation.ts'
import { changeNow } from './deps.ts'
import { fieldsOfThrottle, SCOPE_LABELS } from './explanation.ts'
import {
  listThrottle,
  type ShownThrottle,
  showThrottle,
  type ThrottleList,
} from './read-throttle.ts'

const DEFAULT_TOP = 20
/** The clients of each email are counted one by one. */
const MAX_TOP = 1_000
/** Enough to tell digests apart. */
const SHOWN_DIGITS = 12

const NAMES = {
  email: {
    about: 'An email, with or without a user.',
    examples: ['kate@example.com'],
    parse: () => parseEmail,
  },
  client: CLIENT_FIELD,
} as const

type Shown = ThrottleList | (ShownThrottle & { email: string | null; client: string | null })

export const getThrottle = operation(
  {
    command: 'throttle show',
    alias: 'list',
    request: 'GET /throttle',
    summary: 'Show failures and waits',
    description:
      'Of an email, a client or both; otherwise the users that wait, and the clients with the most failures.',
    examples: ['--top 10', '--email ann@example.org --client 203.0.113.7'],
    for: null,
    fields: { top: countField(DEFAULT_TOP, MAX_TOP), ...NAMES },
    data: named('ThrottleAnswer', { anyOf: [THROTTLE_LIST, FOUND_THROTTLE] }),
  },
  async (deps, { top, email = null, client = null }): Promise<Done & { data: Shown }> => {
    if (email === null && client === null) {
      const data = await deps.oneAtATime(() => listThrottle(deps, top ?? DEFAULT_TOP))
      return { data, said: sentencesOf(data) }
    }
    if (top !== undefined) throw new WrongUse('top cannot be combined with email or client.', 'top')
    const shown = await showThrottle(deps, { email, client })
    return { data: { email, client: client?.ip ?? null, ...shown } }
  },
  found => ('scopes' in found ? textOfScopes(found) : textOfList(found)),
)

function textOfScopes(shown: ShownThrottle): string {
  const digests = shown.scopes.map(({ scope, digest }) => [
    `digest of ${SCOPE_LABELS[scope]}`,
    shorten(digest),
  ])
  return fieldLines({ ...fieldsOfThrottle(shown), ...Object.fromEntries(digests) })
}

function textOfList({ emails, clients }: ThrottleList): string {
  const toTime = (time: Date | null) => (time ? timeText(time) : '-')
  const ofEmails = createTable<ThrottleList['emails'][number]>(shown => ({
    email: shown.email,
    failures: String(shown.failures),
    'for the day': String(shown.dailyFailures),
    clients: String(shown.clients),
    'waits until': toTime(shown.waitsUntil),
  }))
  const ofClients = createTable<ThrottleList['clients'][number]>(shown => ({
    client: `${shown.scope} digest ${shorten(shown.digest)}`,
    failures: String(shown.failures),
    'waits until': toTime(shown.waitsUntil),
  }))
  return ofEmails(emails) + ofClients(clients)
}

function sentencesOf({ waiting, clients }: ThrottleList): string {
  const counts = `${count(waiting.email, 'email', 'emails')}, ${count(waiting.client, 'client', 'clients')} and ${count(waiting.network, 'network', 'networks')} must wait now.`
  const advice =
    'Of clients and networks, only digests are stored, which cannot be turned back. The log has them: look for login.failed and login.throttled, with email and ip. "throttle show --client IP" prints the digests of an address.'
  return clients.length > 0 ? `${counts}\n${advice}` : counts
}

const shorten = (digest: string) => digest.slice(0, SHOWN_DIGITS)

/**
 * Of a client, also clears those of its network, for IPv6. Blocks of single emails from this client stay: their rows do
 * not name the client. Of an email, also clears those of its clients and devices.
 */
export const clearThrottle = operation(
  {
    command: 'throttle clear',
    event: 'admin.throttle_cleared',
    request: 'DELETE /throttle',
    summary: 'Clear failures and blocks',
    description: 'Of either an email or a client.',
    examples: ['--email ann@example.org', '--client 203.0.113.7'],
    for: null,
    fields: NAMES,
    data: named(
      'ClearedThrottle',
      whole({
        cleared: {
          type: 'boolean',
          description: 'False if there was nothing to clear.',
          examples: [true],
        },
      }),
    ),
  },
  async (deps, { email, client }) => {
    const { throttle } = deps.store
    const change = changeNow(deps)
    if (!email === !client) throw new WrongUse('Name either an email or a client.', 'email')
    const keys = client ? clientScopes(client, deps.budgets).map(({ key }) => key) : []
    const cleared = client
      ? await throttle.clear(keys, client.ip, change)
      : await throttle.clearOfEmail(email ?? '', change)
    await sleep(BLOCK_CACHED_MS)
    const name = `${client?.ip ?? email}`
    const rest = client
      ? 'If a user still waits there, the failures of that email are used up: run "throttle clear --email" too.'
      : 'Blocks of clients and networks, and locks by administrators, stay.'
    const data = { cleared }
    if (!cleared) {
      return { data, said: `${name} has no failures or blocks: nothing was cleared. ${rest}` }
    }
    const facts = client ? { client: client.ip } : { email }
    const sentence = `Cleared the failures and blocks of ${name}${client?.network ? ' and its network' : ''}. ${rest}`
    return { data, said: { facts, sentence } }
  },
)
