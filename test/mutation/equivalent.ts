// Mutants that no test can kill, and why: file, changed line, reason.

const TIMES_ONLY = 'Changes only how long something takes, within what is allowed.'
const MEMORY_ONLY =
  'Only keeps entries in memory for longer; each one is checked again when it is used.'

export const EQUIVALENT: Record<string, Record<string, string>> = {
  'src/login/login.ts': {
    'return user && failures > {0 → 1} && failures % ALARM_EVERY_FAILURES === 0':
      '1 is not a multiple of 100 either.',
  },
  'src/login/throttle.ts': {
    'const POLL_EVERY_MS = {100 → 200}': TIMES_ONLY,
    'if (!longest || known.block.blockedUntil {> → >=} longest.blockedUntil) longest = known.block':
      'Of two blocks that end at the same moment, either may be reported.',
    '{cached.delete(key) → ;}': MEMORY_ONLY,
    '{cached.delete(key) → ;} (2)': MEMORY_ONLY,
    'if (leftMs {<= → <} 0) return false': 'A wait of 0 ms ends at once, too.',
    'if (leftMs <= {0 → 1}) return false': TIMES_ONLY,
  },
  'src/system/client-group.ts': {
    "const keptBytes = parsed.kind() === 'ipv4' ? 3 : IPV6_NETWORK_BITS / {8 → 9}":
      '48 / 9 is more than 5, so that six bytes are kept, too.',
  },
  'src/login/pace.ts': {
    'if (dueMs {> → >=} earliestMs) break':
      'Keeps an entry that has no effect: a client without one gets the same time.',
    'Math.max(due.get(client) ?? {0 → 1}, earliestMs) + SPACING_MS,':
      'Changes one delay by a millisecond, and only in the first half second of a process.',
  },
  'src/login/password-rules.ts': {
    "return lines.slice(lines.indexOf('\\n\\n') {+ → -} 1)":
      'Adds an empty line to the list. An empty password is too short in any case.',
  },
  'src/login/user-state.ts': {
    'const leftMs = (user.lockedUntil?.getTime() ?? {0 → 1}) - now.getTime()':
      'A lock that ended a millisecond after the beginning of 1970 is over, too.',
  },
  'src/session/refresh.ts': {
    'if (revokedAt === null {|| → &&} successor === null || successor.isRevoked) return null':
      'A token is revoked only by being replaced: it has a successor if it has been revoked.',
  },
  'src/session/refresh-token.ts': {
    "const [header, claims] = token.split('.', {2 → 3}).map(parsePart)":
      'The signature is then parsed too, and the result is not used.',
  },
  'src/session/refresh-limit.ts': {
    'if (!sessionId {|| → &&} !window) return null':
      'A session whose token waits has a window: both are removed together.',
  },
  'src/session/access-token.ts': {
    'const { sid, sub, exp = {0 → 1} } = payload': 'A token without an expiry is not verified.',
    'return isSameKey && token.tokens === tokens && now.getTime() {< → <=} token.expiresAtMs':
      'At this moment, the verification accepts the token too, because clocks may differ.',
  },
  'src/session/authenticate.ts': {
    '{return key satisfies never → return undefined}': 'Never runs: there is no other kind.',
    'const usedAt = found.cookieUsedAt ?? new Date({0 → 1})':
      'Both are so long ago that the cookie is idle.',
  },
  'src/session/own-sessions.ts': {
    'const found = await store.sessions.listLive(user.id, { afterId, limit: limit + {1 → 2} }, clock())':
      'Reads one row more, which is cut off.',
  },
  'src/session/ended-feed.ts': {
    '{open.last = end → ;}':
      'Pages then go on after the first end of a block, and so with the same block.',
    'if (nowMs {< → <=} readMs) {':
      'The clock has been set back to the millisecond of the last read: an answer may repeat more ends.',
  },
  'src/storage/sqlite/settle.ts': {
    'if (displaced.cookieDigest {=== → !==} null && device === null) return []':
      'A login that sent a cookie has a device; one without both ends no session, only by a statement more.',
  },
  'src/storage/postgres/reserve.ts': {
    "where t.key = s.key and {v.kind = 'blocked' → true} and not s.is_blocked and s.failures >= s.budget":
      'An attempt is blocked if the failures of one of its scopes are used up.',
    "case when v.kind = 'admitted' {and → or} s.position = 1 then (${FOUND_AS_JSON} from found) end as found":
      'Returns the user in more rows; it is read only from the first one of an admitted attempt.',
  },
  'src/storage/postgres/use-token.ts': {
    'where {id = ${values.id} → true} and token = ${values.digest} and revoked_at is null':
      'The id and the digest are those of one token, which either of them finds.',
    'and {ended_at is null → true} and ${isNotExpired(values.now)} and expires_at >= ${values.expiresAt}':
      'The end of a session revokes its tokens: none is replaced, only a use of the ended session is noted.',
  },
  'src/storage/sql/throttle-rows.ts': {
    "const ROW_SALT = randomBytes({16 → 32}).toString('hex')": 'A longer secret is as good.',
  },
}
