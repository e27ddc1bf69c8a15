// Decides whether a connection to PostgreSQL is encrypted, by the rules of the driver.
import { isLoopback } from './addresses.ts'
import type { Environment } from './kinds.ts'

/**
 * 'local': on this machine. 'verified': TLS, and the server's certificate is checked. 'unverified':
 * TLS with any certificate. 'plain': no TLS, because the operator disabled it. 'unstated': any other
 * setting; this version of the driver, or a later one, may send everything unencrypted.
 */
export type Encryption = 'local' | 'verified' | 'unverified' | 'plain' | 'unstated'

/** The URL names one host. Throws if it cannot be parsed. */
export function decideEncryption(url: string, env: Environment): Encryption {
  const { hostname, searchParams } = new URL(url)
  // The driver takes the last of several values.
  const last = (name: string) => searchParams.getAll(name).at(-1)
  const named = /^%2f/i.test(hostname) ? '/' : hostname
  const host = last('host') || named || env.PGHOST || 'localhost'
  if (host.startsWith('/') || isLoopback(host)) return 'local'

  // The driver reads PGSSLMODE only if the URL has no setting for TLS.
  const mode = last('sslmode') || (searchParams.has('ssl') ? '' : env.PGSSLMODE)
  const isLibpqMode = last('uselibpqcompat') === 'true'
  switch (mode) {
    case 'verify-full':
    case 'verify-ca':
      return 'verified'
    case 'require':
      // libpq accepts any certificate here, unless it has a root certificate.
      return isLibpqMode && !last('sslrootcert') ? 'unverified' : 'verified'
    case 'no-verify':
      return isLibpqMode ? 'unstated' : 'unverified'
    case 'disable':
      return 'plain'
    default:
      return 'unstated'
  }
}
