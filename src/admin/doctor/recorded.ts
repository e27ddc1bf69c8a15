// Compares the signing keys and admin tokens with the audit: one that no event explains was put into its file by hand, by
// an older version, by an attacker, or while the database did not answer.
import type { Config } from '../../config/config.ts'
import type { AuditStore } from '../../domain/audit.ts'
import { type Finding, ok, unsafe } from '../../finding.ts'
import { listRecordedStarts } from '../../record-start.ts'
import { findUnexplained } from '../file-events.ts'
import { findFileEvents } from '../found-files.ts'

export async function checkRecorded(config: Config, audit: AuditStore): Promise<Finding[]> {
  if ((await listRecordedStarts(audit)).length === 0) {
    return [ok('audit', 'the next start of the service records the signing keys and admin tokens')]
  }
  const unexplained = await findUnexplained(audit, await findFileEvents(config))
  if (unexplained.length === 0) return [ok('audit', 'explains every signing key and admin token')]
  return unexplained.map(({ action, target }) => {
    const [what, remedy] =
      action === 'key.found'
        ? ['signing key', `run "keys rotate", then delete this key from ${config.signingKeysFile}`]
        : ['admin token', `run "admin-tokens revoke ${target}"`]
    return unsafe(config)(
      'audit',
      `no event explains the ${what} ${target}, or its present form: if you know where it is from, run "audit accept --target ${target}"; otherwise ${remedy}`,
    )
  })
}
