// Whether a host is this machine itself.
import { isIPv4 } from 'node:net'

/** By name or address, with or without the brackets of an IPv6 address in a URL. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase()
  return ['localhost', '::1', '[::1]'].includes(name) || (isIPv4(name) && name.startsWith('127.'))
}
