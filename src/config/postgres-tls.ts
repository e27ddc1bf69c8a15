// Whether a connection to PostgreSQL is encrypted, as the driver reads its URL.
import { isLoopback } from './addresses.ts'

/**
 * 'local': on this machine. 'verified': TLS, and the server's certificate is checked. 'unverified':
 * TLS with any certificate. 'plain': no TLS, as the operator wrote. 'unstated': anything else; the
 * driver or its next version may then send everything unencrypted.
 */
export type Encryption = 'local' | 'verified' | 'unverified' | 'plain' | 'unstated'

type Settings = Record<string, string | undefined>

/** The URL must be one that can be parsed. */
export function decideEncryption(url: string, env: Settings): Encryption {
  const { hostname, searchParams } = new URL(url)
  // Of several, the driver takes the last.
  const last = (name: string) => searchParams.getAll(name).at(-1)
  const named = /^%2f/i.test(hostname) ? '/' : hostname
  const hosts = last('host') || named || env.PGHOST || 'localhost'
  if (hosts.split(',').every(host => host.startsWith('/') || isLoopback(host))) return 'local'

  // The environment counts where the URL says nothing of TLS.
  const mode = last('sslmode') || (searchParams.has('ssl') ? '' : env.PGSSLMODE)
  const isAsLibpq = last('uselibpqcompat') === 'true'
  switch (mode) {
    case 'verify-full':
    case 'verify-ca':
      return 'verified'
    case 'require':
      // To libpq this does not ask whose certificate it is.
      return isAsLibpq && !last('sslrootcert') ? 'unverified' : 'verified'
    case 'no-verify':
      return isAsLibpq ? 'unstated' : 'unverified'
    case 'disable':
      return 'plain'
    default:
      return 'unstated'
  }
}
