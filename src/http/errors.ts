// The one place where what was thrown becomes an answer.
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { MalformedBody } from './body.ts'
import { sendFailure } from './envelope.ts'

const BODY_FIELDS = ['email', 'password']

export function handleError(error: FastifyError, request: FastifyRequest, reply: FastifyReply) {
  // The caller hung up while sending: nobody is left to answer, and nothing is wrong here.
  if (request.raw.readableAborted) return sendFailure(reply, 'BAD_REQUEST')
  if (error instanceof MalformedBody) {
    return sendFailure(reply, 'VALIDATION_ERROR', { fields: BODY_FIELDS })
  }
  if (error.validation) {
    return sendFailure(reply, 'VALIDATION_ERROR', { fields: offendingFields(error.validation) })
  }
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return sendFailure(reply, 'PAYLOAD_TOO_LARGE')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return sendFailure(reply, 'UNSUPPORTED_MEDIA_TYPE')
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return sendFailure(reply, 'VALIDATION_ERROR', { fields: BODY_FIELDS })
  }
  request.log.error({ event: 'request.failed', err: error })
  return sendFailure(reply, 'INTERNAL_ERROR')
}

/** Each field once, in the order of the form; all of them if the body is no object at all. */
function offendingFields(validation: NonNullable<FastifyError['validation']>): string[] {
  const named = validation.map(
    ({ instancePath, params }) => params.missingProperty ?? instancePath.slice(1),
  )
  const fields = BODY_FIELDS.filter(field => named.includes(field))
  return fields.length > 0 ? fields : BODY_FIELDS
}
