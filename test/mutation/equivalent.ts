// Mutants that no test can kill, and why: file, changed line, reason.

const TIMES_ONLY = 'Changes only how long something takes, within what is allowed.'
const MEMORY_ONLY =
  'Only keeps entries in memory for longer; each one is checked again when it is used.'

export const EQUIVALENT: Record<string, Record<string, string>> = {
  'src/login/login.ts': {
    'return user && failures > {0 → 1} && failures % ALARM_EVERY_FAILURES === 0':
      '1 is not a multiple of 100 either.',
  },
  'src/login/admission.ts': {
    '{wokenIn = null → ;}':
      'Wakes another attempt once too often; that one finds its scope busy and waits on as the first.',
  },
  'src/login/throttle.ts': {
    'const POLL_EVERY_MS = {100 → 200}': TIMES_ONLY,
    'if (!longest || known.block.blockedUntil {> → >=} longest.blockedUntil) longest = known.block':
      'Of two blocks that end at the same moment, either may be reported.',
    '{cached.delete(key) → ;}': MEMORY_ONLY,
    '{cached.delete(key) → ;} (2)': MEMORY_ONLY,
    'if (timeLeftMs {<= → <} 0) return false': 'A wait of 0 ms ends at once, too.',
    'if (timeLeftMs <= {0 → 1}) return false': TIMES_ONLY,
  },
  'src/session/refresh.ts': {
    'if (revokedAt === null {|| → &&} successor === null || successor.isRevoked) return null':
      'A token is revoked only by being replaced: it has a successor if it has been revoked.',
  },
  'src/storage/sqlite/reserve.ts': {
    "db.selectFrom('login_throttle').select(STATE_COLUMNS){.where(isOneOf(keys)) → }.compile(),":
      'Reads more rows than are needed; each scope takes the one with its key.',
  },
  'src/storage/postgres/reserve.ts': {
    "case when v.kind = 'admitted' {and → or} s.position = 1 then (${FOUND_AS_JSON} from found) end as found":
      'Returns the user in more rows; it is read only from the first one of an admitted attempt.',
  },
}
