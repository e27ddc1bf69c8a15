// Requests that two readers could understand differently are refused.
import type { IncomingMessage } from 'node:http'
import type { FailureCode } from '../answer/envelope.ts'

/** Headers that may stand once; Node would silently take one of several. */
const SINGLE = new Set([
  'host',
  'content-type',
  'content-encoding',
  'content-length',
  'authorization',
])

/** Browsers and proxies together send some 40. Node would silently drop what is beyond its own limit. */
const MAX_HEADERS = 100
/** A media type and its parameters. */
const CONTENT_TYPE_MAX_CHARACTERS = 256

/** Why the request cannot be taken as it is, or null. */
export function checkFraming({
  url,
  rawHeaders,
  headers,
  httpVersion,
}: IncomingMessage): FailureCode | null {
  // The whole server, which the router would take for its root.
  if (url === '*') return 'NOT_FOUND'
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
  const isUnsupported =
    encoding.toLowerCase() !== 'identity' || type.length > CONTENT_TYPE_MAX_CHARACTERS
  return isUnsupported ? 'UNSUPPORTED_MEDIA_TYPE' : null
}
