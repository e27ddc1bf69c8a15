// Turns every thrown error into an answer.
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { DatabaseBusy } from '../domain/store.ts'
import { sendFailure } from './answer/envelope.ts'
import { logCounted, logRefused, refuse } from './request/log.ts'

const RETRY_BUSY_SECONDS = 1

/** Each key is a field that only one operation requires. */
const MESSAGES = {
  newPassword: 'Email, current password and new password are required',
  verifier: 'Code and verifier are required',
}

export function handleError(error: FastifyError, request: FastifyRequest, reply: FastifyReply) {
  // The caller disconnected while sending the body. This is no fault of the service, so it is not logged.
  if (request.raw.readableAborted) return sendFailure(reply, 'BAD_REQUEST')
  const required = fieldsOf(request)
  // The answer names them. A login's message is that of the code; the admin API names its fields by itself.
  const [, own] = Object.entries(MESSAGES).find(([field]) => required.includes(field)) ?? []
  const message = own && { message: own }
  if (error.validation) {
    const fields = offendingFields(error.validation, request, required)
    const isMissing = fields.some(field => required.includes(field))
    const details = isMissing ? message : { message: `${fields.join(' and ')} cannot be used` }
    return refuse(request, reply, 'VALIDATION_ERROR', { ...details, fields })
  }
  switch (error.code) {
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH': {
      const reason = 'malformed-json'
      return required.length > 0
        ? refuse(request, reply, 'VALIDATION_ERROR', { ...message, fields: required }, reason)
        : refuse(request, reply, 'BAD_REQUEST', {}, reason)
    }
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return refuse(request, reply, 'PAYLOAD_TOO_LARGE')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return refuse(request, reply, 'UNSUPPORTED_MEDIA_TYPE')
  }
  // Fastify found fault with the request, such as a QUERY without a type.
  const isRefused = error.code?.startsWith('FST_') && error.statusCode && error.statusCode < 500
  if (isRefused) return refuse(request, reply, 'BAD_REQUEST')
  if (error instanceof DatabaseBusy) {
    logRefused(request, 'database-busy')
    return sendFailure(reply, 'SERVICE_UNAVAILABLE', { retryAfterSeconds: RETRY_BUSY_SECONDS })
  }
  // Counted: while the database is down, every request causes a fault.
  const facts = { event: 'request.failed', error: error.code ?? error.name, err: error }
  logCounted(request, 'error', facts)
  return sendFailure(reply, 'INTERNAL_ERROR')
}

/** The required fields in the route's schema, unless the route answers by itself if one is missing. */
function fieldsOf({ routeOptions: { attachValidation, schema } }: FastifyRequest): string[] {
  const body = schema?.body
  const hasFields = body !== null && typeof body === 'object' && 'required' in body
  return !attachValidation && hasFields && Array.isArray(body.required) ? body.required : []
}

/** Each field once, in the order of the schema; all required ones if the body is no object. */
function offendingFields(
  validation: NonNullable<FastifyError['validation']>,
  { routeOptions: { schema } }: FastifyRequest,
  required: string[],
): string[] {
  const named = validation.map(({ instancePath, params }) => {
    // A field of an object is named by the object.
    const [, field = params.missingProperty] = instancePath.split('/')
    return field
  })
  const { properties = {} } = Object(schema?.body)
  const offending = Object.keys(properties).filter(field => named.includes(field))
  return offending.length > 0 ? offending : required
}
