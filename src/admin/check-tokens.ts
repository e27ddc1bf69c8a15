// Warns of admin tokens that have ended or soon will. The start and the doctor check them.
import type { Config } from '../config/config.ts'
import { type AdminToken, TOKEN_MAX_DAYS } from '../domain/admin-token.ts'
import { DAY_MS } from '../domain/lifetimes.ts'
import { type Finding, ok, warning } from '../system/finding.ts'

/** More than any deployment has. */
export const ALL_TOKENS = { after: '', limit: 1_000 }

/** Before the end of a token, as before that of a certificate. */
const WARN_BEFORE_DAYS = 14

/** Empty if the admin API is off. */
export function checkTokens(
  { adminPort, console }: Config,
  tokens: AdminToken[],
  now: Date,
): Finding[] {
  if (adminPort === 0) return []
  const check = 'admin tokens'
  if (tokens.length === 0 && !console)
    return [warning(check, 'there is no admin token yet: run "admin-tokens add"')]
  const writing = tokens.filter(({ role }) => role === 'write').length
  const advice = 'add another one, give it to its program and revoke this one'
  return [
    ok(check, `${tokens.length} tokens, ${writing} of them may write`),
    ...tokens.flatMap(({ name, expiresAt }) => {
      const daysLeft = (expiresAt.getTime() - now.getTime()) / DAY_MS
      // One more day, because two clocks are compared.
      const isWrong = daysLeft < WARN_BEFORE_DAYS || daysLeft > TOKEN_MAX_DAYS + 1
      const end = `${daysLeft > 0 ? 'ends' : 'ended'} at ${expiresAt.toISOString()}`
      return isWrong ? [warning(check, `the token ${name} ${end}: ${advice}`)] : []
    }),
  ]
}
