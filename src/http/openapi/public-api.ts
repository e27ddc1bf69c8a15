// What the document of the public API says besides its operations.
import type { PublicFailureCode } from '../answer/envelope.ts'
import type { ApiDescription } from './document.ts'

/** When an operation fails. docs/api.md has these sentences in its table. */
export const WHEN: Record<PublicFailureCode, string> = {
  VALIDATION_ERROR:
    'a field is missing, empty or not a string, the body is no JSON object, or the new password or second factor cannot be used (`reason`)',
  BAD_REQUEST:
    'the request is not valid HTTP, is ambiguous, or came as `http://` to the TLS port; the query is longer than 8,192 characters; the body is not JSON; or `limit`, `after`, `role`, `amr` or `refreshToken` is invalid',
  INVALID_CREDENTIALS:
    'unknown email, wrong password, a missing, wrong or used code or passkey of a user with a second factor, an ended temporary password, or a user that is inactive or locked by an administrator: always the same answer',
  INVALID_TOKEN:
    'the token, cookie or code is missing or invalid, or does not belong to a live session',
  HTTPS_REQUIRED: 'the request did not come over HTTPS',
  CSRF_FAILED:
    'a POST or DELETE by cookie came without its CSRF token, or from an origin that is neither the service’s nor in `CORS_ORIGINS`; a proxy asked `GET /verify` about such a request; or a login came from another site that is not listed',
  FORBIDDEN:
    'the user has none of the roles that a proxy named in `GET /verify?role=`, or was authenticated otherwise than `amr` demands',
  PASSWORD_CHANGE_REQUIRED:
    'the password is right but temporary: set a new one with `POST /api/v1/auth/password`',
  SECOND_FACTOR_REQUIRED:
    'the password is right, but users of this role need a second factor (`SECOND_FACTOR_ROLES`): set one up with `POST /api/v1/auth/second-factor`',
  NOT_FOUND: 'nothing exists at this address, or you have no live session with this id',
  METHOD_NOT_ALLOWED: 'the address supports only the methods in `Allow`',
  REQUEST_TIMEOUT: 'the headers took longer than 5 seconds, or the whole request longer than 10',
  PAYLOAD_TOO_LARGE: 'the body is larger than 16 KiB',
  UNSUPPORTED_MEDIA_TYPE: 'the body is not `application/json`, or it is compressed',
  EXPECTATION_FAILED: 'the `Expect` header is not `100-continue`',
  TOO_MANY_ATTEMPTS: 'too many failed logins; `Retry-After` has the exact seconds left',
  TOO_MANY_REQUESTS:
    'in a minute, more than 60 refreshes and login codes of a session or 600 of a user, or 600 reads by a cookie',
  HEADERS_TOO_LARGE:
    'address and headers are larger than 16 KiB, or there are more than 100 headers',
  INTERNAL_ERROR: 'an unexpected error, such as a database that does not answer',
  SECOND_FACTOR_UNAVAILABLE:
    'second factors are turned off (`SECOND_FACTOR`), the key file has no key to encrypt them, or the service has no host name for passkeys',
  SERVICE_UNAVAILABLE: 'the service is overloaded or is stopping; try again after `Retry-After`',
}

/** Every operation may answer these. */
export const COMMON_FAILURES: PublicFailureCode[] = [
  ...(['BAD_REQUEST', 'HTTPS_REQUIRED', 'REQUEST_TIMEOUT'] as const),
  ...(['UNSUPPORTED_MEDIA_TYPE', 'EXPECTATION_FAILED', 'HEADERS_TOO_LARGE'] as const),
  ...(['INTERNAL_ERROR', 'SERVICE_UNAVAILABLE'] as const),
]

export const PUBLIC_API: ApiDescription = {
  title: 'Login Service',
  description:
    'Every answer except the keys is JSON in an envelope: `{"success": true, "data"}`, or `{"success": false, "error": {"code", "message"}}`. HEAD is answered like GET, without the body. Other methods get a 405 with `Allow`.',
  tags: [
    {
      name: 'Login',
      description:
        'From email and password to tokens, and back. A page may also send its user to `/login?return_to=` and its own address, encoded. After the login the login page sends the user back, if `RETURN_TO_ORIGINS` lists the origin. A page of another site adds a `challenge`, and gets a code if `CODE_CALLBACKS` lists its address.',
    },
    { name: 'Sessions', description: 'A user’s own live sessions.' },
    { name: 'Tokens', description: 'What other services need to verify an access token.' },
  ],
  securitySchemes: {
    accessToken: {
      ...{ type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
      description: 'The access token of a login or refresh.',
    },
    sessionCookie: {
      ...{ type: 'apiKey', in: 'cookie', name: '__Host-session' },
      description:
        'The session cookie, which a browser gets at its login. Pages of other origins send it with `credentials: "include"`, if they are of the same site and `CORS_ORIGINS` lists them.',
    },
    csrfToken: {
      ...{ type: 'apiKey', in: 'header', name: 'X-CSRF-Token' },
      description:
        'The CSRF token of a login or `GET /api/v1/auth/session`; all of a session stay valid. The request also needs `Sec-Fetch-Site: same-origin`, or an `Origin` that `CORS_ORIGINS` lists.',
    },
  },
  failures: COMMON_FAILURES,
  when: WHEN,
}
