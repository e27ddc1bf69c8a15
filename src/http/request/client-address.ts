// The address of the client: the TCP peer, or the address that trusted proxies report.
import ipaddr from 'ipaddr.js'
import { normalAddress, parseAddress } from '../../system/client-group.ts'

/** Enough for an IPv6 address with a zone, brackets and a port. */
const HOP_MAX_CHARACTERS = 80
/** More than the proxies in front of any service. */
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
      const parsed = parseAddress(address)
      return networks.some(
        ([network, bits]) => parsed?.kind() === network.kind() && parsed.match(network, bits),
      )
    },
  }
}

/**
 * The first address that is no trusted proxy, searched from the peer to the left; the left-most if all
 * are trusted. Null if a trusted proxy does not report a client: counting all its clients as one would
 * let each of them block all others.
 */
export function clientAddress(
  peer: string,
  forwardedFor: string | undefined,
  proxies: Proxies,
): string | null {
  if (!proxies.isTrusted(peer)) return normalAddress(peer)
  let client: string | null = null
  // Entries to the left of the client may be forged and long, so they are not read.
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

function withoutPort(hop: string): string {
  return /^\[(.+)\](?::\d+)?$/.exec(hop)?.[1] ?? /^([\d.]+):\d+$/.exec(hop)?.[1] ?? hop
}
