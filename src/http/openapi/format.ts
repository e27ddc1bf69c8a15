// The parts of the OpenAPI format that this service uses.
import type { FailureCode } from '../answer/envelope.ts'

export type JsonSchema = {
  $ref?: string
  type?: string | string[]
  format?: string
  const?: unknown
  enum?: readonly unknown[]
  anyOf?: JsonSchema[]
  description?: string
  examples?: unknown[]
  properties?: Record<string, JsonSchema>
  required?: readonly string[]
  items?: JsonSchema
}

type Content = Record<
  string,
  { schema: JsonSchema; examples?: Record<string, { summary: string; value: object }> }
>

export type Reference = { $ref: string }

export type Header = { description: string; required?: boolean; schema: JsonSchema }

export type Response = {
  description: string
  headers: Record<string, Header | Reference>
  /** Absent if the answer has no body. */
  content?: Content
}

type Parameter = Header & { name: string; in: string }

export type Operation = {
  operationId: string
  tags: string[]
  summary: string
  description: string
  security: Record<string, []>[]
  parameters: (Parameter | Reference)[]
  requestBody?: { required: boolean; content: Content }
  /** Failures are references. */
  responses: Record<string, Response | Reference>
  /** Until its failures have become responses. */
  'x-failures'?: FailureCode[]
}

export type Document = {
  info: { title: string; version: string; description: string }
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: {
    schemas: Record<string, JsonSchema>
    responses: Record<string, Response>
    securitySchemes: Record<string, { description: string }>
  }
}

/** An operation has one answer for success. */
export function successOf({ responses }: Operation): { status: string; response: Response } {
  for (const [status, response] of Object.entries(responses)) {
    if (!('$ref' in response)) return { status, response }
  }
  throw new Error('no answer is described')
}
