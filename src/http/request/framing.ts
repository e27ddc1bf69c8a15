// Refuses requests that this service and a proxy could interpret differently (request smuggling), or that are too long.
import type { IncomingMessage } from 'node:http'

/** Headers that may occur only once; of several, Node silently takes one. */
const SINGLE = new Set([
  ...['host', 'authorization'],
  ...['content-type', 'content-encoding', 'content-length'],
])

/** Browsers and proxies together send about 40. Node silently drops headers beyond its own limit. */
const MAX_HEADERS = 100
/** Enough for a media type and its parameters. */
const CONTENT_TYPE_MAX_CHARACTERS = 256

/** Enough for a `return_to` with every character escaped. */
export const QUERY_MAX_CHARACTERS = 8_192

/** The code of the failure; null if the request is unambiguous. */
export function checkFraming({ url = '', rawHeaders, headers, httpVersion }: IncomingMessage) {
  // `OPTIONS *` concerns the whole server; the router would treat it as `/`.
  if (url === '*') return 'NOT_FOUND'
  if (url.includes('?') && url.length - url.indexOf('?') > QUERY_MAX_CHARACTERS) {
    return 'BAD_REQUEST'
  }
  if (rawHeaders.length > 2 * MAX_HEADERS) return 'HEADERS_TOO_LARGE'
  const seen = new Set<string>()
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase() ?? ''
    if (!SINGLE.has(name)) continue
    if (seen.has(name)) return 'BAD_REQUEST'
    seen.add(name)
  }
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return 'BAD_REQUEST'
  if (!seen.has('host') && httpVersion === '1.1') return 'BAD_REQUEST'
  if ((headers['transfer-encoding'] ?? 'chunked').toLowerCase() !== 'chunked') return 'BAD_REQUEST'
  if (headers.expect !== undefined && headers.expect.toLowerCase() !== '100-continue') {
    return 'EXPECTATION_FAILED'
  }
  const encoding = headers['content-encoding'] ?? 'identity'
  const type = headers['content-type'] ?? ''
  // A proxy asks GET /verify with the headers of an upload, but without its body.
  const hasBody = seen.has('content-length') || headers['transfer-encoding'] !== undefined
  const isUnsupported =
    encoding.toLowerCase() !== 'identity' || type.length > CONTENT_TYPE_MAX_CHARACTERS
  return hasBody && isUnsupported ? 'UNSUPPORTED_MEDIA_TYPE' : null
}
