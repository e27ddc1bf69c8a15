// Requests that two readers could understand differently are refused.
import type { IncomingMessage } from 'node:http'
import type { FailureCode } from './envelope.ts'

/** Headers that may stand once; Node would silently take one of several. */
const SINGLE = new Set([
  'host',
  'content-type',
  'content-encoding',
  'content-length',
  'authorization',
])

/** Why the request cannot be taken as it is, or null. */
export function refusalOf({
  url,
  rawHeaders,
  headers,
  httpVersion,
}: IncomingMessage): FailureCode | null {
  // The whole server, which the router would take for its root.
  if (url === '*') return 'NOT_FOUND'
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
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity')
    return 'UNSUPPORTED_MEDIA_TYPE'
  return null
}
