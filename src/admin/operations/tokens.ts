// The tokens of the admin API. Only commands add and revoke them: a token must not be able to make others.
import { type AdminToken, TOKEN_MAX_DAYS, TOKEN_ROLES } from '../../domain/admin-token.ts'
import { DAY_MS } from '../../domain/lifetimes.ts'
import { Failure, WrongUse } from '../../system/failures.ts'
import { createAdminToken, digestOf } from '../../system/identifiers.ts'
import { endParser } from '../input/times.ts'
import { timeText } from '../layout.ts'
import { listOperation, operation } from '../operation.ts'
import { changeNow } from './deps.ts'

const DEFAULT_DAYS = 90

const NAME = {
  about: 'Name of the token, for the log and the audit.',
  isRequired: true,
  parse: () => parseName,
} as const

export const addToken = operation(
  {
    command: 'admin-tokens add',
    request: null,
    summary: 'Add a token of the admin API',
    description: 'It is printed once; only its digest is stored.',
    examples: [
      'registration --role create --valid 30d',
      'registration --role create --digest-stdin < registration.sha256',
    ],
    fields: {
      name: NAME,
      role: {
        about:
          'read: only GET requests; create: only POST /users, without a role or a hash; write: all requests, and so the takeover of every account.',
        enum: TOKEN_ROLES,
        isRequired: true,
      },
      valid: {
        about: `When it ends: a time, such as 2030-01-31T12:00 (UTC), or a duration, such as 30d. By default ${DEFAULT_DAYS}d, at most ${TOKEN_MAX_DAYS}d.`,
        parse: endParser,
      },
      digestStdin: {
        type: 'boolean',
        about:
          'Read the SHA-256 of a token in hex from standard input. The same name, role and digest again change nothing.',
        only: 'command',
      },
      digest: { about: 'The SHA-256 of the token.', only: 'route' },
    },
    argument: 'name',
    for: null,
    event: 'admin.token_added',
    isFirst: true,
  },
  async (deps, { name, role, valid, digest }) => {
    const { adminTokens } = deps.store
    const change = changeNow(deps)
    const { at: createdAt } = change
    const days = (number: number) => new Date(createdAt.getTime() + number * DAY_MS)
    const expiresAt = valid?.(createdAt) ?? days(DEFAULT_DAYS)
    if (expiresAt <= createdAt || expiresAt > days(TOKEN_MAX_DAYS)) {
      throw new WrongUse(`--valid takes a time within the next ${TOKEN_MAX_DAYS} days.`)
    }
    const token = digest === undefined ? createAdminToken() : null
    const added = { name, role, expiresAt, digest: digest ?? digestOf(token ?? '') }
    if (!(await adminTokens.insert(added, change))) {
      const known = await adminTokens.find(added.digest)
      if (!known) {
        throw new Failure(`There is already a token ${name}: revoke it, or use another name.`)
      }
      const end = timeText(known.expiresAt)
      const isSame = known.name === name && known.role === role && known.expiresAt > createdAt
      const sentence = `There is already a token with this digest: ${known.name}, with the role "${known.role}"; its end is ${end}.`
      if (!isSame) throw new Failure(sentence)
      return { data: known, said: sentence }
    }
    return {
      data: { name, role, createdAt, expiresAt, ...(token && { token }) },
      said: {
        facts: { name, role, expiresAt },
        sentence: `Added the token ${name} with the role "${role}"; it ends at ${timeText(expiresAt)}.`,
      },
    }
  },
  (data: object) => ('token' in data ? `${data.token}\n` : ''),
)

export const listTokens = listOperation(
  {
    command: 'admin-tokens list',
    request: null,
    summary: 'List the tokens of the admin API',
    description: 'Also those that ended in the last 30 days.',
    examples: ['--json'],
    argument: null,
    for: null,
  },
  {
    items: 'tokens',
    schema: {},
    parsePosition: () => parseName,
    async read({ store }, _, { from, limit }) {
      const items = await store.adminTokens.list({ after: from ?? '', limit })
      return { items, next: items.length < limit ? null : (items.at(-1)?.name ?? null) }
    },
    toRow: (token: AdminToken) => ({
      name: token.name,
      role: token.role,
      created: timeText(token.createdAt),
      ends: timeText(token.expiresAt),
      'last used': token.lastUsedAt ? timeText(token.lastUsedAt) : 'never',
    }),
    say: (_, listed) =>
      listed === 0 ? 'There are no tokens yet: run "admin-tokens add" to add one.' : null,
  },
)

export const revokeToken = operation(
  {
    command: 'admin-tokens revoke',
    request: null,
    summary: 'Revoke a token of the admin API',
    description: 'All instances refuse it at once.',
    examples: ['registration'],
    fields: { name: NAME },
    argument: 'name',
    for: null,
    event: 'admin.token_revoked',
  },
  async (deps, { name }) => {
    if (!(await deps.store.adminTokens.revoke(name, changeNow(deps)))) {
      throw new Failure(`There is no token ${name}.`)
    }
    return { said: { facts: { name }, sentence: `Revoked the token ${name}.` } }
  },
)

/** Does not repeat what was typed: it may be a token. */
function parseName(typed: string): string {
  if (/^[a-z0-9._-]{1,50}$/.test(typed)) return typed
  throw new WrongUse(
    'The name of a token has 1 to 50 of the characters a-z, 0-9, ".", "_" and "-".',
  )
}
