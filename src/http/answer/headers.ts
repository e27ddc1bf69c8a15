// The headers that every answer has. Names in lower case save Fastify from making them so for every answer.
import type { FastifyReply } from 'fastify'
import type { Config } from '../../config/config.ts'

export type ProtectiveHeaders = Record<string, string>

const PROTECTIVE_HEADERS: ProtectiveHeaders = {
  // Answers are data: browsers must not load, run or frame anything in them.
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  // Answers hold tokens and names, which no cache may keep.
  'cache-control': 'no-store',
  // For a year, browsers use only HTTPS for this host.
  'strict-transport-security': 'max-age=31536000',
  // Browsers take the content type as it is and do not guess that data is a script.
  'x-content-type-options': 'nosniff',
  // The address of the login page, with its return_to, is not told to other sites.
  'referrer-policy': 'no-referrer',
  // Other sites cannot embed an answer, for example as an image, to learn its size or timing.
  'cross-origin-resource-policy': 'same-origin',
  // Like frame-ancestors, for browsers that do not know it.
  'x-frame-options': 'DENY',
}

/** With HSTS for the hosts below this one too, unless the operator serves some of them over plain HTTP. */
export function protectiveHeaders({ hstsSubdomains }: Pick<Config, 'hstsSubdomains'>) {
  const headers = { ...PROTECTIVE_HEADERS }
  if (hstsSubdomains === 'yes') headers['strict-transport-security'] += '; includeSubDomains'
  return headers
}

export function addHeaders(reply: FastifyReply, headers: ProtectiveHeaders): void {
  reply.headers(headers).header('x-request-id', reply.request.id)
}
