// Truncates the addresses of clients in a log line, or leaves them out (LOG_IP).
import { isIP } from 'node:net'
import type { Config } from '../config/config.ts'
import { networkAddress } from '../system/client-group.ts'

/** Every field that is an address, whatever its name: `target` of `admin.request` may be one. */
export function withoutAddresses(
  facts: Record<string, unknown>,
  kept: Config['logIp'],
): Record<string, unknown> {
  if (kept === 'full') return facts
  const fields = Object.entries(facts).flatMap(([name, value]) => {
    if (typeof value !== 'string' || !isIP(value)) return [[name, value]]
    return kept === 'none' ? [] : [[name, networkAddress(value)]]
  })
  return Object.fromEntries(fields)
}
