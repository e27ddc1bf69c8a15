// GET /verify: forward authentication. A proxy asks it about each request to an application on the same host.
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../config/config.ts'
import { sendFailure, sendSuccess } from '../answer/envelope.ts'
import { header, object, operation, READING, success } from '../openapi/operation.ts'
import { NO_DATA } from '../openapi/schemas.ts'
import { acceptedReturnTo, originOf } from '../page/return-to.ts'
import { type Proxies, trustProxies } from '../request/client-address.ts'
import { checkSite } from '../request/csrf.ts'
import { logRefused, refuse } from '../request/log.ts'
import {
  accessBy,
  credentialOf,
  logDenied,
  type NoAccess,
  type SessionAccess,
  sendDenied,
} from './session-access.ts'

type VerifyDeps = SessionAccess & { proxies: Proxies; returnToOrigins: readonly string[] }

export const VERIFY_OPERATION = operation({
  operationId: 'verify',
  tags: ['Sessions'],
  summary: 'Tell a proxy which user has sent a request',
  description:
    'For nginx `auth_request`, Caddy `forward_auth` and Traefik `ForwardAuth`, if the application is on the host of the service. The proxy says which request it asks about in `X-Original-URL` and `X-Original-Method`, or in `X-Forwarded-Uri`, `X-Forwarded-Host` and `X-Forwarded-Method`; the addresses count only if it is in `TRUST_PROXY`. A 401 for an address of this host that `RETURN_TO_ORIGINS` lists has the address of the login page in `Location`.',
  security: READING,
  querystring: {
    ...object(
      {
        role: {
          type: 'string',
          pattern: '^[^,]+(,[^,]+)*$',
          description: 'The user must have one of these roles.',
          examples: ['admin,auditor'],
        },
        amr: {
          type: 'string',
          enum: ['mfa'],
          description: '`mfa`: the user must have logged in with a second factor.',
        },
      },
      [],
    ),
    additionalProperties: false,
  },
  response: {
    ...success('The session is live.', NO_DATA, {
      'Remote-User': header('The id of the user.'),
      'Remote-Email': header('The email.'),
      'Remote-Name': header(
        'The name. In all four headers, control characters, `%` and non-ASCII characters are percent-encoded as UTF-8.',
      ),
      'Remote-Role': header('The role.'),
      'Remote-Amr': header('How the user logged in, separated by commas, such as `pwd,otp,mfa`.'),
    }),
    302: {
      description:
        'There is no live session, and a user has opened the page that `X-Forwarded-Uri` names.',
      headers: { Location: header('The login page, with the address to return to.') },
    },
  },
  failures: ['INVALID_TOKEN', 'FORBIDDEN', 'CSRF_FAILED'],
  options: { attachValidation: true },
})

export function verifyRoute(
  sessions: SessionAccess,
  { trustProxy, returnToOrigins }: Pick<Config, 'trustProxy' | 'returnToOrigins'>,
) {
  const deps: VerifyDeps = { ...sessions, proxies: trustProxies(trustProxy), returnToOrigins }
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { role, amr } = request.query as { role?: string; amr?: string }
    // A query from which no demand was read must not admit every user.
    if (request.validationError || ((role ?? amr) === undefined && request.url.includes('?'))) {
      const message =
        'The query may only have one "role": roles, separated by commas; and "amr=mfa"'
      return refuse(request, reply, 'BAD_REQUEST', { message, fields: ['role', 'amr'] })
    }
    const access = await accessBy(deps, shownBy(deps, request))
    if (access.kind !== 'granted') return sendToLogin(deps, request, reply, access)
    const { user, session } = access.live
    const lacksRole = role !== undefined && !role.split(',').includes(user.role)
    if (lacksRole || (amr !== undefined && !session.amr.includes(amr))) {
      logRefused(request, lacksRole ? 'role' : 'amr')
      return sendFailure(reply, 'FORBIDDEN')
    }
    reply.headers({
      'Remote-User': user.id,
      'Remote-Email': toHeaderValue(user.email),
      'Remote-Name': toHeaderValue(user.name),
      'Remote-Role': toHeaderValue(user.role),
      'Remote-Amr': session.amr.join(),
    })
    return sendSuccess(reply, {})
  }
}

/** The application has no CSRF token, so only the site that a change came from is checked. */
function shownBy(deps: VerifyDeps, request: FastifyRequest) {
  const shown = credentialOf(deps, request)
  if (shown.kind !== 'cookie' || !isAboutChange(request.headers)) return shown
  const reason = checkSite(request.headers, deps.isListedOrigin)
  return reason ? { kind: 'cross-site' as const, reason } : shown
}

function sendToLogin(
  deps: VerifyDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  access: NoAccess,
): FastifyReply {
  const peer = request.raw.socket.remoteAddress ?? ''
  const original = deps.proxies.isTrusted(peer) ? originalOf(request.headers) : null
  if (access.kind === 'cross-site' || !original) return sendDenied(request, reply, access)
  const location = loginAddress(deps, original.address)
  if (location === null) {
    logRefused(request, 'return-to', originOf(original.address))
    return sendDenied(request, reply, access)
  }
  reply.header('Location', location)
  if (original.status === 401) return sendDenied(request, reply, access)
  logDenied(request, access)
  return reply.code(302).send()
}

/** Null for another host: it does not get the cookie, so its users would come back from the login without a session. */
function loginAddress({ tokens, returnToOrigins }: VerifyDeps, original: string): string | null {
  const returnTo = acceptedReturnTo(original, returnToOrigins)
  const { origin, hostname } = new URL(tokens.issuer)
  if (returnTo === null || new URL(returnTo).hostname !== hostname) return null
  return `${origin}/login?return_to=${encodeURIComponent(returnTo)}`
}

/** Headers are ASCII. Encoding the percent sign too makes decoding unambiguous. */
function toHeaderValue(text: string): string {
  return text.toWellFormed().replace(/[^\x20-\x7e]|%/gu, encodeURIComponent)
}

const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS']

/**
 * Both headers are read, and from every peer: a client can send the one that its proxy does not replace, and an
 * unsafe method can only lead to a refusal. Node joins several headers of one name, and the result is no method.
 */
function isAboutChange(headers: IncomingHttpHeaders): boolean {
  const methods = [headers['x-original-method'], headers['x-forwarded-method']]
  return methods.some(method => method !== undefined && !SAFE_METHODS.includes(String(method)))
}

/**
 * The address that the proxy was asked for, and the status that sends its user to the login page; null if that page would
 * not help, because a script has asked or a form was sent. The recipe for nginx sends X-Original-*, takes only a 401, and
 * decides itself which requests it redirects; Caddy and Traefik send X-Forwarded-*.
 */
function originalOf(headers: IncomingHttpHeaders): { address: string; status: number } | null {
  const { 'x-original-url': url, 'x-forwarded-uri': uri, 'x-forwarded-host': host } = headers
  if (url !== undefined) return { address: String(url), status: 401 }
  const isVisit =
    headers['x-forwarded-method'] === 'GET' && headers['sec-fetch-mode'] === 'navigate'
  return uri !== undefined && isVisit ? { address: `https://${host}${uri}`, status: 302 } : null
}
