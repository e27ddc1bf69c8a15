// Records a start in the audit: the configuration, if it differs from that of the last start on this machine. The first
// start of a version that knows this also records which signing keys and admin tokens it finds.
import { findUnexplained } from './admin/file-events.ts'
import { findFileEvents } from './admin/found-files.ts'
import { commandActor } from './admin/terminal/terminal.ts'
import type { Config } from './config/config.ts'
import type { AuditEvent, AuditStore } from './domain/audit.ts'

const CONFIGURATION = 'configuration'
/** If that many starts of other machines came in between, the configuration is recorded again. */
const LOOKED_AT = 100

/** The last starts that were recorded. Empty: the keys and tokens have not been recorded yet. */
export async function listRecordedStarts(audit: AuditStore): Promise<AuditEvent[]> {
  const page = { since: null, beforeId: null, limit: LOOKED_AT }
  const { events } = await audit.list(CONFIGURATION, page)
  return events.filter(({ action }) => action === 'service.configured')
}

/** `hasMadeKeys`: this start has made the key file. */
export async function recordStart(
  config: Config,
  audit: AuditStore,
  now: Date,
  hasMadeKeys: boolean,
): Promise<void> {
  const by = commandActor()
  const starts = await listRecordedStarts(audit)
  const isFirst = starts.length === 0
  const found =
    isFirst || hasMadeKeys ? await findUnexplained(audit, await findFileEvents(config)) : []
  const files = found.map(event =>
    hasMadeKeys && event.action === 'key.found'
      ? { ...event, action: 'key.added' as const }
      : event,
  )
  const { settings: after } = config
  const last = starts.find(start => start.by.host === by.host)
  const isSame = last && JSON.stringify(last.after) === JSON.stringify(after)
  const configured = {
    action: 'service.configured',
    target: CONFIGURATION,
    targetId: null,
  } as const
  await audit.record({ at: now, by }, [
    ...files.filter(({ action }) => isFirst || action === 'key.added'),
    ...(isSame ? [] : [{ ...configured, after }]),
  ])
}
