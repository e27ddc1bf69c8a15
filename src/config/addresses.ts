// Reads and checks the issuer, the origins and the trusted proxies.
import { isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Reader } from './reader.ts'
import type { Variable } from './variables.ts'

/** Keeps a refresh token within the specified 500 characters: its other parts have a fixed length. */
export const ISSUER_MAX_BYTES = 100

/** True for names and addresses of this machine, with or without the brackets of a URL. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase()
  return ['localhost', '::1', '[::1]'].includes(name) || (isIPv4(name) && name.startsWith('127.'))
}

export function defaultIssuer(port: number): string {
  return `https://localhost:${port}`
}

/** RFC 8414, section 2. Tokens contain the text as configured, so a URL must be in its normal form. */
export function readIssuer(read: Reader, isProduction: boolean): string | null {
  const issuer = read.text('JWT_ISSUER')
  if (issuer === null) return null
  const url = URL.canParse(issuer) ? new URL(issuer) : null
  const isLocal = !isProduction && isLoopback(url?.hostname ?? '')
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLocal)
  const isNormal = url?.href === issuer || url?.href === `${issuer}/`
  if (!isSafe || !isNormal || /[?#]/.test(issuer) || url?.username || url?.password) {
    read.problems.push(
      'JWT_ISSUER must be a URL such as https://login.example.com: https, in its normal form, without user, query and fragment.',
    )
  } else if (issuer.length > ISSUER_MAX_BYTES) {
    read.problems.push(`JWT_ISSUER must have at most ${ISSUER_MAX_BYTES} characters.`)
  }
  return issuer
}

export function readOrigins(read: Reader, name: Variable): string[] | null {
  const origins = read.list(name)
  for (const origin of origins ?? []) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin || origin.includes('*')) {
      read.problems.push(
        `${name} takes exact origins such as https://app.example.com, not "${origin}".`,
      )
    }
  }
  return origins
}

export function readProxies(read: Reader): string[] {
  const proxies = read.list('TRUST_PROXY') ?? []
  for (const proxy of proxies) {
    if (!isNetwork(proxy)) {
      read.problems.push(
        `TRUST_PROXY takes addresses such as 10.0.0.5, 10.0.0.0/28 or ::1, not "${proxy}" (hop counts are not safe).`,
      )
    } else if (Number(proxy.split('/')[1] ?? 128) < (proxy.includes(':') ? 16 : 8)) {
      read.problems.push(
        `TRUST_PROXY ${proxy} is too wide: every machine in this network could forge client addresses.`,
      )
    }
  }
  return proxies
}

/**
 * Refuses "1" and "10.1", which some parsers read as addresses, and IPv4-mapped IPv6 addresses, because
 * peers are compared by their plain IPv4 address.
 */
function isNetwork(text: string): boolean {
  const address = text.split('/')[0] ?? ''
  const isAddress =
    ipaddr.IPv4.isValidFourPartDecimal(address) ||
    (ipaddr.IPv6.isValid(address) && !ipaddr.IPv6.parse(address).isIPv4MappedAddress())
  return isAddress && (address === text || ipaddr.isValidCIDR(text))
}
