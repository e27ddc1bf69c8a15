// The one place where what was thrown becomes an answer.
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { MalformedBody } from '../request/body.ts'
import { logOf } from '../request/log.ts'
import { sendFailure } from './envelope.ts'

export function handleError(error: FastifyError, request: FastifyRequest, reply: FastifyReply) {
  // The caller hung up while sending: nobody is left to answer, and nothing is wrong here.
  if (request.raw.readableAborted) return sendFailure(reply, 'BAD_REQUEST')
  // A route with named fields says which; to the others a body is a token or nothing.
  if (error instanceof MalformedBody || error.code === 'FST_ERR_CTP_INVALID_CONTENT_LENGTH') {
    const fields = fieldsOf(request)
    return fields.length > 0
      ? sendFailure(reply, 'VALIDATION_ERROR', { fields })
      : sendFailure(reply, 'BAD_REQUEST')
  }
  if (error.validation) {
    const fields = offendingFields(error.validation, fieldsOf(request))
    return sendFailure(reply, 'VALIDATION_ERROR', { fields })
  }
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return sendFailure(reply, 'PAYLOAD_TOO_LARGE')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return sendFailure(reply, 'UNSUPPORTED_MEDIA_TYPE')
  }
  // While a database is down, anybody can cause a fault at any rate.
  const facts = { event: 'request.failed', error: error.code ?? error.name }
  logOf(request).counted('error', facts, undefined, error)
  return sendFailure(reply, 'INTERNAL_ERROR')
}

/** The fields that the route's schema demands. */
function fieldsOf({ routeOptions }: FastifyRequest): string[] {
  const body = routeOptions.schema?.body
  const hasFields = body !== null && typeof body === 'object' && 'required' in body
  return hasFields && Array.isArray(body.required) ? body.required : []
}

/** Each field once, in the order of the form; all of them if the body is no object at all. */
function offendingFields(
  validation: NonNullable<FastifyError['validation']>,
  fields: string[],
): string[] {
  const named = validation.map(
    ({ instancePath, params }) => params.missingProperty ?? instancePath.slice(1),
  )
  const offending = fields.filter(field => named.includes(field))
  return offending.length > 0 ? offending : fields
}
