// Compares answers with the OpenAPI document: status, headers and body.
import assert from 'node:assert/strict'
import type { IncomingHttpHeaders } from 'node:http'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { Document, Operation, Response } from '../../src/http/openapi/document.ts'

type Got = { status: number; headers: IncomingHttpHeaders; text: string }
type Found = { id: string; operation: Operation }

/** Headers that an answer has only if the document says so. */
const OWN_HEADERS = ['retry-after', 'www-authenticate', 'x-csrf-token', 'set-cookie']

export type Description = ReturnType<typeof createDescription>

export function createDescription(text: string) {
  const document: Document = JSON.parse(text, (_key, value) =>
    // A field that the document does not name is a failure too.
    value?.type === 'object' && value.properties
      ? { ...value, additionalProperties: false }
      : value,
  )
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  const validators = new Map<object, ValidateFunction>()
  const { components, paths } = document

  function assertValid(schema: object, value: unknown, about: string): void {
    const validate = validators.get(schema) ?? ajv.compile({ ...schema, components })
    validators.set(schema, validate)
    assert.ok(validate(value), `${about}: ${ajv.errorsText(validate.errors)}`)
  }

  /** The part of the document that it refers to, or itself. */
  function resolve<T extends object>(part: T | { $ref: string }): T {
    if (!('$ref' in part)) return part
    const names = part.$ref.slice('#/'.length).split('/')
    return names.reduce((found, name) => Object(found)[name], Object(document))
  }

  const routes = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      method: method.toUpperCase(),
      form: new RegExp(`^${path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
      found: { id: operation.operationId, operation },
    })),
  )

  function find(method: string, address: string): Found | null {
    const path = address.split('?')[0] ?? ''
    const wanted = method === 'HEAD' ? 'GET' : method
    return routes.find(it => it.method === wanted && it.form.test(path))?.found ?? null
  }

  return {
    document,
    assertValid,
    /** The texts of requests that have neither values of their own nor a greatest length. */
    endless: Object.values(paths).flatMap(methods =>
      Object.values(methods).flatMap(({ operationId, parameters, requestBody }) => {
        const { properties = {} } = requestBody?.content['application/json'].schema ?? {}
        const ofBody = Object.entries(properties).map(([name, schema]) => ({ name, schema }))
        return [...parameters, ...ofBody].flatMap(({ name, schema }) =>
          schema.type === 'string' && !schema.enum && !schema.maxLength
            ? [`${operationId} ${name}`]
            : [],
        )
      }),
    ),
    resolve,
    find,
    /** Fails if the answer differs from the document. Answers of other addresses are not compared. */
    check(method: string, address: string, { status, headers, text: body }: Got): void {
      const found = find(method, address)
      // A preflight request is answered before it is routed.
      if (!found) return
      const about = `${found.id} ${status}`
      const response = found.operation.responses[String(status)]
      assert.ok(response, `${about} is not described`)
      const { headers: described, content } = resolve<Response>(response)
      for (const [name, { schema, required }] of Object.entries(described)) {
        const values = [headers[name.toLowerCase()] ?? []].flat()
        assert.ok(!required || values.length > 0, `${about}: no ${name}`)
        for (const value of values) assertValid(schema, value, `${about}, ${name}`)
      }
      const names = Object.keys(described).map(name => name.toLowerCase())
      for (const name of OWN_HEADERS) {
        assert.ok(!(name in headers) || names.includes(name), `${about}: ${name} is not described`)
      }
      const media = content?.['application/json']
      if (!media) {
        assert.equal(body, '', about)
        return
      }
      assert.equal(headers['content-type'], 'application/json; charset=utf-8', about)
      if (method !== 'HEAD') assertValid(media.schema, JSON.parse(body), about)
    },
  }
}
