// Request bodies: JSON in UTF-8, or what a form of a page sends, or empty.
import { isUtf8 } from 'node:buffer'
import { errorCodes, type FastifyInstance, type FastifyRequest } from 'fastify'
import { isFormPost } from '../answer/envelope.ts'

export const BODY_MAX_BYTES = 16 * 1024

/** A body with missing or wrong fields. It has no stack, which would cost more than the answer. */
export class InvalidBody extends Error {
  constructor() {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super()
    Error.stackTraceLimit = stackTraceLimit
  }
}

export function acceptBodies(app: FastifyInstance): void {
  const parseJson = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<Buffer>(
    'application/json',
    { parseAs: 'buffer' },
    (request, body, done) => {
      if (body.length === 0) done(null, undefined)
      else if (isFormPost(request)) done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE())
      else if (isUtf8(body)) parseJson(request, body.toString(), done)
      else done(new errorCodes.FST_ERR_CTP_INVALID_JSON_BODY())
    },
  )
  app.addContentTypeParser<string>(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (request, body, done) => {
      if (body === '') done(null, undefined)
      else if (isFormPost(request)) done(null, Object.fromEntries(new URLSearchParams(body)))
      else done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE())
    },
  )
  // Any content type is accepted while the body is empty.
  app.addContentTypeParser<Buffer>('*', { parseAs: 'buffer' }, (_request, body, done) => {
    if (body.length === 0) done(null, undefined)
    else done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE())
  })
}

/** The fields of a form. Those that it lacks are undefined. */
export function formOf({ body }: FastifyRequest): Partial<Record<string, string>> {
  return (body ?? {}) as Partial<Record<string, string>>
}
