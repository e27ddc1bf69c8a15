// When an operation fails, and how the document describes the answer.
import {
  type FailureCode,
  failureText,
  type PublicFailureCode,
  SPECIFIED_RETRY_AFTER_SECONDS,
  statusOf,
} from '../answer/envelope.ts'
import { FLAW_MESSAGES } from '../routes/new-password.ts'
import type { Reference, Response } from './format.ts'
import { object, whole } from './operation.ts'

/** docs/api.md has these sentences in its table. */
export const WHEN: Record<PublicFailureCode, string> = {
  VALIDATION_ERROR:
    'a field is missing, empty or not a string, the body is no JSON object, or the new password cannot be used (`reason`)',
  BAD_REQUEST:
    'the request is not valid HTTP, is ambiguous, or came as `http://` to the TLS port; the body is not JSON; or `limit`, `after`, `role` or `refreshToken` is invalid',
  INVALID_CREDENTIALS:
    'unknown email, wrong password, an ended temporary password, or a user that is inactive or locked by an administrator: always the same answer',
  INVALID_TOKEN:
    'the token, cookie or code is missing or invalid, or does not belong to a live session',
  HTTPS_REQUIRED: 'the request did not come over HTTPS',
  CSRF_FAILED:
    'a POST or DELETE by cookie came without its CSRF token, or from an origin that is neither the service’s nor in `CORS_ORIGINS`; a proxy asked `GET /verify` about such a request; or a login came from another site that is not listed',
  FORBIDDEN: 'the user has none of the roles that a proxy named in `GET /verify?role=`',
  PASSWORD_CHANGE_REQUIRED:
    'the password is right but temporary: set a new one with `POST /api/v1/auth/password`',
  NOT_FOUND: 'nothing exists at this address, or you have no live session with this id',
  METHOD_NOT_ALLOWED: 'the address supports only the methods in `Allow`',
  REQUEST_TIMEOUT: 'the headers took longer than 5 seconds, or the whole request longer than 10',
  PAYLOAD_TOO_LARGE: 'the body is larger than 16 KiB',
  UNSUPPORTED_MEDIA_TYPE: 'the body is not `application/json`, or it is compressed',
  EXPECTATION_FAILED: 'the `Expect` header is not `100-continue`',
  TOO_MANY_ATTEMPTS: 'too many failed logins; `Retry-After` has the exact seconds left',
  TOO_MANY_REQUESTS: 'more than 60 refreshes and login codes of a session in a minute',
  HEADERS_TOO_LARGE:
    'address and headers are larger than 16 KiB, or there are more than 100 headers',
  INTERNAL_ERROR: 'an unexpected error, such as a database that does not answer',
  SERVICE_UNAVAILABLE: 'the service is overloaded or is stopping; try again after `Retry-After`',
}

/** Every operation may answer these. */
export const COMMON_FAILURES: PublicFailureCode[] = [
  'BAD_REQUEST',
  'HTTPS_REQUIRED',
  'REQUEST_TIMEOUT',
  'UNSUPPORTED_MEDIA_TYPE',
  'EXPECTATION_FAILED',
  'HEADERS_TOO_LARGE',
  'INTERNAL_ERROR',
  'SERVICE_UNAVAILABLE',
]

/** The codes are an enumeration, so that generated clients know those of each operation. */
const failureOf = (codes: FailureCode[]) =>
  whole({
    success: { type: 'boolean', const: false },
    error: object(
      {
        code: { type: 'string', enum: codes, description: 'For programs. It does not change.' },
        message: { type: 'string', description: 'For people.' },
        fields: {
          type: 'array',
          items: { type: 'string' },
          description: 'The fields that are missing or invalid.',
        },
        reason: {
          type: 'string',
          enum: Object.keys(FLAW_MESSAGES),
          description: 'What is wrong with the new password.',
        },
        retryAfter: {
          type: 'integer',
          const: SPECIFIED_RETRY_AFTER_SECONDS,
          description: `Seconds. Only after too many failed logins, and then always ${SPECIFIED_RETRY_AFTER_SECONDS}. The header \`Retry-After\` has those that are left.`,
        },
      },
      ['code', 'message'],
    ),
  })

/** Headers that a failure of this status always has, by the names of the document's components. */
const HEADERS: Record<number, string> = {
  401: 'WWW-Authenticate',
  429: 'Retry-After',
  503: 'Retry-After',
}

/** When each code is sent. */
export type Occasions = Partial<Record<FailureCode, string>>

/** Groups them by status, and adds the components that they refer to. */
export function toResponses(
  codes: FailureCode[],
  when: Occasions,
  components: Record<string, Response>,
): Record<string, Reference> {
  const byStatus = Object.entries(Object.groupBy(codes, statusOf))
  return Object.fromEntries(
    byStatus.map(([status, alike = []]) => {
      const name = alike.map(toTypeName).join('Or')
      components[name] ??= toResponse(alike, when, HEADERS[Number(status)])
      return [status, { $ref: `#/components/responses/${name}` }]
    }),
  )
}

/** INVALID_TOKEN becomes InvalidToken: generators make the names of types from those of components. */
function toTypeName(code: FailureCode): string {
  const words = code.toLowerCase().split('_')
  return words.map(word => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}

function toResponse(codes: FailureCode[], when: Occasions, header?: string): Response {
  const examples = codes.map(code => [
    code,
    { summary: when[code] ?? '', value: JSON.parse(failureText(code)) },
  ])
  return {
    description: codes.map(code => `\`${code}\`: ${when[code]}.`).join('\n\n'),
    headers: { ...(header && headerRef(header)), ...headerRef('X-Request-ID') },
    content: {
      'application/json': {
        schema: failureOf(codes),
        examples: Object.fromEntries(examples),
      },
    },
  }
}

/** A header that the document describes once. */
export function headerRef(name: string) {
  return { [name]: { $ref: `#/components/headers/${name}` } }
}
