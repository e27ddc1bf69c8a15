// The kinds of values that name the service, the sites that use it and the proxies in front.
import { isIP, isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Kind, ReadContext } from './kinds.ts'

/** With the limit of `checkKeys`, it keeps a refresh token within the specified 500 characters. */
export const ISSUER_MAX_BYTES = 100

/** True for names and addresses of this machine, with or without the brackets of a URL. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase()
  return ['localhost', '::1', '[::1]'].includes(name) || (isIPv4(name) && name.startsWith('127.'))
}

export function defaultIssuer(port: number | string): string {
  return `https://localhost:${port}`
}

/** RFC 8414, section 2. Tokens contain the text as configured, so a URL must be in its normal form. */
export const issuer: Kind<string> = {
  values: 'https URL (outside production also `http://localhost…`)',
  parse(text, { name, environment, refuse }) {
    const url = findSafeUrl(text, environment)
    if ((url?.href !== text && url?.href !== `${text}/`) || /[?#]/.test(text)) {
      refuse(
        `${name} must be a URL such as https://login.example.com: https, in its normal form, without user, query and fragment.`,
      )
    } else if (text.length > ISSUER_MAX_BYTES) {
      refuse(`${name} must have at most ${ISSUER_MAX_BYTES} characters.`)
    }
    return text
  },
}

/** As browsers write it, so that it can be compared with what they send. */
export const origin: Kind<string> = {
  values: 'https origin (outside production also `http://localhost…`)',
  parse(text, { name, environment, refuse }) {
    const isOrigin = findSafeUrl(text, environment)?.origin === text && !text.includes('*')
    if (isOrigin) return text
    return refuse(`${name} must be an origin such as https://console.example.com, not "${text}".`)
  },
}

/** The domain of the passkeys that pages of this origin may use: its host, or one above it. An IP address has none. */
export function passkeyDomain(origin: string, wanted: string | null): string | null {
  const host = URL.parse(origin)?.hostname ?? ''
  const domain = wanted ?? host
  const isAbove = host.endsWith(`.${domain}`) && domain.includes('.')
  return isIP(host.replace(/[[\]]/g, '')) === 0 && (host === domain || isAbove) ? domain : null
}

/** `problemOf` returns the problem of an entry, without the name of the variable; or null. */
function list(
  values: string,
  problemOf: (entry: string, context: ReadContext) => string | null,
): Kind<readonly string[]> {
  return {
    values: `${values}, comma-separated`,
    parse(text, context) {
      const entries = text.split(',').map(entry => entry.trim())
      return entries.filter(Boolean).map(entry => {
        const problem = problemOf(entry, context)
        if (problem) context.refuse(`${context.name} ${problem}`)
        return entry
      })
    },
  }
}

/** Production demands https; elsewhere a warning says what will not work. */
export const origins = list('origins', (entry, { name, environment, warn }) => {
  if (URL.parse(entry)?.origin !== entry || entry.includes('*')) {
    return `takes exact origins such as https://app.example.com, not "${entry}".`
  }
  if (entry.startsWith('https://')) return null
  if (environment === 'production') return `must be https:// origins in production, not ${entry}.`
  warn(
    `${name} has ${entry}: browsers take http:// for another site and do not send the session cookie from there. Use https:// (docs/integrating.md).`,
  )
  return null
})

/** Compared as text with what an application asks for, so each must be in its normal form. */
export const callbacks = list(
  'https addresses (outside production also `http://localhost…`)',
  (entry, { environment }) =>
    findSafeUrl(entry, environment)?.href === entry && !/[?#]/.test(entry)
      ? null
      : `takes exact addresses such as https://app.example.net/signed-in: https, with a path, in their normal form, without user, query and fragment; not "${entry}".`,
)

export const networks = list('addresses or CIDR networks', entry => {
  if (!isNetwork(entry)) {
    return `takes addresses such as 10.0.0.5, 10.0.0.0/28 or ::1, not "${entry}" (hop counts are not safe).`
  }
  return Number(entry.split('/')[1] ?? 128) < (entry.includes(':') ? 16 : 8)
    ? `${entry} is too wide: every machine in this network could forge client addresses.`
    : null
})

/** Refuses `javascript:` and other schemes; in production also plain HTTP. */
export function link(...otherSchemes: string[]): Kind<string> {
  const schemes = ['https:', ...otherSchemes]
  return {
    values: `${schemes.map(scheme => `\`${scheme}\``).join(', ')} address`,
    parse(text, { name, environment, refuse }) {
      const url = findSafeUrl(text, environment, schemes)
      const or = otherSchemes.map(scheme => `, or a ${scheme} address`).join('')
      return (
        url?.href ??
        refuse(`${name} must be an https:// address without user and password${or}, not "${text}".`)
      )
    },
  }
}

/** Null for other schemes, and for a URL with user or password. Outside production, `http://localhost…` is safe too. */
function findSafeUrl(text: string, environment: string, schemes = ['https:']): URL | null {
  const url = URL.parse(text)
  if (!url || url.username || url.password) return null
  const mayBePlain = environment !== 'production' && isLoopback(url.hostname)
  return schemes.includes(url.protocol) || (mayBePlain && url.protocol === 'http:') ? url : null
}

/**
 * Refuses "1" and "10.1", which some parsers read as addresses, and IPv4 addresses that are written as IPv6 (mapped, or of
 * a NAT64), because peers are compared by their plain IPv4 address.
 */
function isNetwork(text: string): boolean {
  const address = text.split('/')[0] ?? ''
  const isAddress =
    ipaddr.IPv4.isValidFourPartDecimal(address) ||
    (ipaddr.IPv6.isValid(address) &&
      !['ipv4Mapped', 'rfc6052'].includes(ipaddr.IPv6.parse(address).range()))
  return isAddress && (address === text || ipaddr.isValidCIDR(text))
}
