// Who is calling: the TCP peer, or the address that trusted proxies vouch for, read from the right.
import { isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'

/** A subscriber gets a whole /64 network, so an IPv6 client is counted by its network … */
const IPV6_CLIENT_BITS = 64
/** … and a site may get a /48, with 65,536 of them. */
const IPV6_NETWORK_BITS = 48
/** The longest IPv6 address with a zone, brackets and a port. */
const HOP_MAX_CHARACTERS = 80
/** More proxies than any request passes. */
const MAX_HOPS = 20

export type Proxies = { isTrusted: (address: string) => boolean }

export function trustProxies(ranges: readonly string[]): Proxies {
  const networks = ranges.map(range =>
    range.includes('/')
      ? ipaddr.parseCIDR(range)
      : ([ipaddr.parse(range), range.includes(':') ? 128 : 32] as const),
  )
  return {
    isTrusted(address) {
      if (networks.length === 0) return false
      const parsed = parse(address)
      return networks.some(
        ([network, bits]) => parsed?.kind() === network.kind() && parsed.match(network, bits),
      )
    },
  }
}

/**
 * From the peer leftwards, the first address that is no trusted proxy; if all are, the left-most.
 * Null if a trusted proxy did not say whom it speaks for: counting all its clients as one would let
 * any of them lock out all.
 */
export function clientAddress(
  peer: string,
  forwardedFor: string | undefined,
  proxies: Proxies,
): string | null {
  if (!proxies.isTrusted(peer)) return normalAddress(peer)
  let client: string | null = null
  // What stands left of the client is its own word, and may be long: it is not read.
  let rest: string | null = forwardedFor ?? ''
  for (let hops = 0; rest !== null && hops < MAX_HOPS; hops++) {
    const comma = rest.lastIndexOf(',')
    const hop = rest.slice(comma + 1).trim()
    client = hop.length > HOP_MAX_CHARACTERS ? null : normalAddress(withoutPort(hop))
    if (client === null || !proxies.isTrusted(client)) break
    rest = comma === -1 ? null : rest.slice(0, comma)
  }
  return client
}

export function clientGroup(address: string): string {
  return prefixOf(address, IPV6_CLIENT_BITS) ?? address
}

export function clientNetwork(address: string): string | null {
  return prefixOf(address, IPV6_NETWORK_BITS)
}

/** Null unless it is an IPv6 address. */
function prefixOf(address: string, bits: number): string | null {
  const parsed = address.includes(':') ? parse(address) : null
  if (parsed?.kind() !== 'ipv6') return null
  return `${Buffer.from(parsed.toByteArray().slice(0, bits / 8)).toString('hex')}/${bits}`
}

/** One spelling for each address; an IPv4 address in IPv6 clothes is an IPv4 address. */
function normalAddress(address: string): string | null {
  // Has one spelling only.
  if (isIPv4(address)) return address
  return parse(address)?.toString() ?? null
}

function parse(address: string) {
  const withoutZone = address.replace(/%.*$/, '')
  const isAddress =
    ipaddr.IPv4.isValidFourPartDecimal(withoutZone) || ipaddr.IPv6.isValid(withoutZone)
  return isAddress ? ipaddr.process(withoutZone) : null
}

function withoutPort(hop: string): string {
  return /^\[(.+)\](?::\d+)?$/.exec(hop)?.[1] ?? /^([\d.]+):\d+$/.exec(hop)?.[1] ?? hop
}
