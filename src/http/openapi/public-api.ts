// What the document of the public API says besides its operations.
import type { ApiDescription } from './document.ts'
import { COMMON_FAILURES, WHEN } from './failures.ts'

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
      type: 'http',
      scheme: 'bearer',
      bearerFormat: 'JWT',
      description: 'The access token of a login or refresh.',
    },
    sessionCookie: {
      type: 'apiKey',
      in: 'cookie',
      name: '__Host-session',
      description:
        'The session cookie, which a browser gets at its login. Pages of other origins send it with `credentials: "include"`, if they are of the same site and `CORS_ORIGINS` lists them.',
    },
    csrfToken: {
      type: 'apiKey',
      in: 'header',
      name: 'X-CSRF-Token',
      description:
        'The CSRF token of a login or `GET /api/v1/auth/session`; all of a session stay valid. The request also needs `Sec-Fetch-Site: same-origin`, or an `Origin` that `CORS_ORIGINS` lists.',
    },
  },
  failures: COMMON_FAILURES,
  when: WHEN,
}
