// Forward authentication: what a proxy says about the request that it asks about. The recipe for nginx sends
// X-Original-*; Caddy and Traefik send X-Forwarded-*.
import type { IncomingHttpHeaders } from 'node:http'

const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS']

/**
 * Both headers are read, and from every peer: a client can send the one that its proxy does not replace, and an
 * unsafe method can only lead to a refusal. Node joins several headers of one name, and the result is no method.
 */
export function isAboutChange(headers: IncomingHttpHeaders): boolean {
  const methods = [headers['x-original-method'], headers['x-forwarded-method']]
  return methods.some(method => method !== undefined && !SAFE_METHODS.includes(String(method)))
}

/** The address that was asked for, and the status that sends its user to the login page. */
type Original = { address: string; status: 302 | 401 }

/**
 * Null if the login page would not help: a script has asked, or a form was sent. nginx takes only a 401, and decides
 * itself which requests it redirects.
 */
export function originalOf(headers: IncomingHttpHeaders): Original | null {
  const { 'x-original-url': url, 'x-forwarded-uri': uri, 'x-forwarded-host': host } = headers
  if (url !== undefined) return { address: String(url), status: 401 }
  const isVisit =
    headers['x-forwarded-method'] === 'GET' && headers['sec-fetch-mode'] === 'navigate'
  return uri !== undefined && isVisit ? { address: `https://${host}${uri}`, status: 302 } : null
}
