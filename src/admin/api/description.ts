// What the document of the admin API says besides its operations.
import type { ApiDescription } from '../../http/openapi/document.ts'
import { COMMON_FAILURES, WHEN } from '../../http/openapi/public-api.ts'

export const ADMIN_API: ApiDescription = {
  title: 'Login Service: admin API',
  description:
    'For registration services and back offices. Every answer is JSON in an envelope: `{"success": true, "data"}`, or `{"success": false, "error": {"code", "message"}}`. Unknown fields are refused in every body and query. HEAD is answered like GET, without the body. Other methods get a 405 with `Allow`.',
  tags: [
    { name: 'Users', description: 'Lists, shows, adds, changes and deletes users.' },
    { name: 'Sessions', description: 'Live sessions of users.' },
    { name: 'Throttle', description: 'Failed logins, and the waits after them.' },
    { name: 'Audit', description: 'What administrators have changed.' },
  ],
  securitySchemes: {
    adminToken: {
      type: 'http',
      scheme: 'bearer',
      description:
        'A token of `admin-tokens add`, with each request on this port. With the role `read` it may only send GET requests, with `create` only `POST /users` with `email`, `name`, and `password` or `generate`.',
    },
  },
  failures: [
    'INVALID_REQUEST',
    'INVALID_TOKEN',
    'FORBIDDEN',
    // This port always has TLS.
    ...COMMON_FAILURES.filter(code => code !== 'HTTPS_REQUIRED'),
  ],
  when: {
    ...WHEN,
    BAD_REQUEST: 'the request is not valid HTTP or is ambiguous, or the body is not JSON',
    INVALID_REQUEST:
      'a field of the body or query is missing, unknown or cannot be used; `fields` names it, `message` tells why',
    INVALID_TOKEN: 'the token is missing, wrong, expired or revoked',
    FORBIDDEN: 'the role of the token does not allow the request, or one of its fields',
    NOT_FOUND: 'there is no such user or live session',
    EMAIL_TAKEN: 'there is already a user with this email',
    PASSWORD_KNOWN:
      'wrong codes came with the right password, so a second factor is reset only with `generate`',
  },
}
