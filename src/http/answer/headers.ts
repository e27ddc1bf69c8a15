// The headers that every answer has. Names in lower case save Fastify from making them so for every answer.
import type { FastifyReply, FastifyRequest } from 'fastify'

export const PROTECTIVE_HEADERS: Record<string, string> = {
  // Answers are data: browsers must not load, run or frame anything in them.
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  // Answers hold tokens and names, which no cache may keep.
  'cache-control': 'no-store',
  // For a year, browsers use only HTTPS for this host and the hosts below it.
  'strict-transport-security': 'max-age=31536000; includeSubDomains',
  // Browsers take the content type as it is and do not guess that data is a script.
  'x-content-type-options': 'nosniff',
  // The address of the login page, with its return_to, is not told to other sites.
  'referrer-policy': 'no-referrer',
  // A site that opens the login page in a window gets no handle to it.
  'cross-origin-opener-policy': 'same-origin',
  // Other sites cannot embed an answer, for example as an image, to learn its size or timing.
  'cross-origin-resource-policy': 'same-origin',
  // Other hosts of the same domain share no process memory or document.domain with the page.
  'origin-agent-cluster': '?1',
  // Like frame-ancestors, for browsers that do not know it.
  'x-frame-options': 'DENY',
  // The old XSS filters of browsers could be misused to switch parts of a page off.
  'x-xss-protection': '0',
  // No name is resolved before a link is followed: that would tell the network what the page links to.
  'x-dns-prefetch-control': 'off',
  // Internet Explorer does not open a download with the rights of this site.
  'x-download-options': 'noopen',
  // Flash and Acrobat may not read answers across origins.
  'x-permitted-cross-domain-policies': 'none',
}

export function addHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers(PROTECTIVE_HEADERS).header('x-request-id', request.id)
}
