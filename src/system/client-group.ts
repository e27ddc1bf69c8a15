// Clients by their address: an IPv4 address, or the networks of an IPv6 address.
import { isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'

/** A subscriber gets a whole /64 network, so an IPv6 client is counted by this network. */
const IPV6_CLIENT_BITS = 64
/** A site may get a /48 network, which contains 65,536 /64 networks. */
const IPV6_NETWORK_BITS = 48
/** A NAT64 (RFC 6052) writes the public IPv4 address of each of its clients behind this prefix. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')

export function clientGroup(address: string): string {
  return prefixOf(address, IPV6_CLIENT_BITS) ?? address
}

export function clientNetwork(address: string): string | null {
  return prefixOf(address, IPV6_NETWORK_BITS)
}

/**
 * The network with which a client takes turns with others: the /48 network of an IPv6 address, or the 256
 * addresses around an IPv4 address, which are often rented together.
 */
export function turnNetwork({ ip, network }: CountedClient): string {
  return network ?? ip.replace(/\d+$/, '0/24')
}

/** The first address of the /24 network of an IPv4 address, or of the /48 network of an IPv6 address. */
export function networkAddress(address: string): string {
  const parsed = parseAddress(address)
  if (!parsed) return ''
  const keptBytes = parsed.kind() === 'ipv4' ? 3 : IPV6_NETWORK_BITS / 8
  const bytes = parsed.toByteArray().map((byte, index) => (index < keptBytes ? byte : 0))
  return ipaddr.fromByteArray(bytes).toString()
}

/** Null unless it is an IPv6 address. */
function prefixOf(address: string, bits: number): string | null {
  const parsed = address.includes(':') ? parseAddress(address) : null
  if (parsed?.kind() !== 'ipv6') return null
  return `${Buffer.from(parsed.toByteArray().slice(0, bits / 8)).toString('hex')}/${bits}`
}

/** The canonical text of an address; an IPv4 address that is written as IPv6 becomes an IPv4 address. */
export function normalAddress(address: string): string | null {
  // An IPv4 address is already canonical.
  if (isIPv4(address)) return address
  return parseAddress(address)?.toString() ?? null
}

export function parseAddress(address: string) {
  const [withoutZone = ''] = address.split('%', 1)
  const isAddress =
    ipaddr.IPv4.isValidFourPartDecimal(withoutZone) || ipaddr.IPv6.isValid(withoutZone)
  const parsed = isAddress ? ipaddr.process(withoutZone) : null
  if (!(parsed instanceof ipaddr.IPv6 && parsed.match(NAT64))) return parsed
  const translated = ipaddr.fromByteArray(parsed.toByteArray().slice(-4))
  // A private address could pretend to be a trusted proxy.
  return ['unicast', 'reserved'].includes(translated.range()) ? translated : parsed
}

/** A client as the throttle counts it. */
export type CountedClient = { ip: string; group: string; network: string | null }

/** Null if the text is not an IP address. */
export function toCountedClient(text: string): CountedClient | null {
  const ip = normalAddress(text)
  return ip === null ? null : { ip, group: clientGroup(ip), network: clientNetwork(ip) }
}
