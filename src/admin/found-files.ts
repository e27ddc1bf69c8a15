// The signing keys and admin tokens as the files have them at this moment.
import type { Config } from '../config/config.ts'
import type { NewAuditEvent } from '../domain/audit.ts'
import { loadKeySet } from '../keys/key-file.ts'
import { keyEvents, tokenEvent } from './file-events.ts'
import { readTokens } from './tokens/token-file.ts'

/** An event for each. A file that is missing or cannot be used has none: other checks report that. */
export async function findFileEvents(config: Config): Promise<NewAuditEvent[]> {
  const keySet = await loadKeySet(config.signingKeysFile).catch(() => null)
  const file = await readTokens(config.adminTokensFile).catch(() => null)
  return [
    ...(keySet ? keyEvents('key.found', keySet) : []),
    ...(file?.tokens ?? []).map(token => tokenEvent('token.found', token)),
  ]
}
