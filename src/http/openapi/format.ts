// The parts of the OpenAPI format that this service uses.
import type { PublicFailureCode } from '../answer/envelope.ts'

export type JsonSchema = {
  $ref?: string
  type?: string | string[]
  format?: string
  const?: unknown
  description?: string
  examples?: unknown[]
  properties?: Record<string, JsonSchema>
  required?: readonly string[]
  items?: JsonSchema
}

type Content = Record<string, { schema: JsonSchema; examples?: Record<string, object> }>

type Reference = { $ref: string }

export type Header = { description: string; required?: boolean; schema: JsonSchema }

export type Response = {
  description: string
  headers: Record<string, Header | Reference>
  content: Content
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
  responses: { 200: Response; [status: string]: Response | Reference }
  /** Until its failures have become responses. */
  'x-failures'?: PublicFailureCode[]
}

export type Document = {
  info: { title: string; version: string; description: string }
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: {
    schemas: Record<string, JsonSchema>
    responses?: Record<string, Response>
    securitySchemes: Record<string, { description: string }>
  }
}
