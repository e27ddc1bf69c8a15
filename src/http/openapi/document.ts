// The OpenAPI document, generated from the schemas of the routes.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import type { PublicFailureCode } from '../answer/envelope.ts'
import { COMMON_FAILURES, FAILURE, headerRef, toResponses } from './failures.ts'
import type { Document } from './format.ts'
import { LAST_LOGIN_SCHEMA, SESSION, USER } from './schemas.ts'

const PACKAGE = join(import.meta.dirname, '../../../package.json')
const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8'))

/** The same for every deployment: it tells nothing of the configuration. */
const ABOUT = {
  openapi: '3.1.0',
  info: {
    title: 'Login Service',
    version,
    description:
      'Every answer except the keys is JSON in an envelope: `{"success": true, "data"}`, or `{"success": false, "error": {"code", "message"}}`. HEAD is answered like GET, without the body. Other methods get a 405 with `Allow`.',
  },
  servers: [{ url: '/' }],
  tags: [
    {
      name: 'Login',
      description:
        'From email and password to tokens, and back. A page may also send its user to `/login?return_to=` and its own address, encoded. After the login the login page sends the user back, if `RETURN_TO_ORIGINS` lists the origin.',
    },
    { name: 'Sessions', description: 'A user’s own live sessions.' },
    { name: 'Tokens', description: 'What other services need to verify an access token.' },
  ],
  components: {
    securitySchemes: {
      accessToken: {
        type: 'http' as const,
        scheme: 'bearer',
        bearerFormat: 'JWT',
        description: 'The access token of a login or refresh.',
      },
      sessionCookie: {
        type: 'apiKey' as const,
        in: 'cookie',
        name: '__Host-session',
        description:
          'The session cookie, which a browser gets at its login. Pages of other origins send it with `credentials: "include"`, if they are of the same site and `CORS_ORIGINS` lists them.',
      },
      csrfToken: {
        type: 'apiKey' as const,
        in: 'header',
        name: 'X-CSRF-Token',
        description:
          'The CSRF token of a login or `GET /api/v1/auth/session`; all of a session stay valid. The request also needs `Sec-Fetch-Site: same-origin`, or an `Origin` that `CORS_ORIGINS` lists.',
      },
    },
    parameters: {
      'X-Request-ID': {
        name: 'X-Request-ID',
        in: 'header',
        description: 'A UUID for the log lines of this request. Any other value is ignored.',
        schema: { type: 'string' as const, format: 'uuid' },
      },
    },
    headers: {
      'X-Request-ID': {
        description: 'The request’s id, which is in its log lines: yours, or a new one.',
        required: true,
        schema: { type: 'string' as const, format: 'uuid' },
      },
      'Retry-After': {
        description: 'Seconds to wait.',
        required: true,
        schema: { type: 'string' as const, pattern: '^[0-9]+$' },
      },
      'WWW-Authenticate': {
        description: 'With `error="invalid_token"` if an invalid token was sent (RFC 6750).',
        required: true,
        schema: { type: 'string' as const, pattern: '^Bearer realm="login"' },
      },
    },
  },
}

/** Must be awaited before the first route is added. */
export async function describeRoutes(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    openapi: ABOUT,
    convertConstToEnum: false,
    refResolver: { buildLocalReference: ({ $id }) => String($id) },
  })
  app.addSchema(USER)
  app.addSchema(SESSION)
  app.addSchema(LAST_LOGIN_SCHEMA)
}

/** Once the app is ready. Adds what operations share: failures, and the request's id. */
export function toDocument(app: FastifyInstance): Document {
  const document = structuredClone(app.swagger()) as unknown as Document
  const { components } = document
  components.schemas.Failure = FAILURE
  components.responses = {}
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      if (!operation.operationId) throw new Error(`${method} ${path} is not described`)
      const { 'x-failures': own = [], requestBody, parameters = [], responses } = operation
      delete operation['x-failures']
      const ofBody: PublicFailureCode[] = method === 'get' ? [] : ['PAYLOAD_TOO_LARGE']
      const failures = [...own, ...ofBody, ...COMMON_FAILURES]
      operation.parameters = [...parameters, { $ref: '#/components/parameters/X-Request-ID' }]
      responses[200].headers = { ...responses[200].headers, ...headerRef('X-Request-ID') }
      Object.assign(responses, toResponses(failures, components.responses))
      // A body without required fields may be left out.
      if (requestBody && !requestBody.content['application/json']?.schema.required) {
        requestBody.required = false
      }
    }
  }
  return document
}
