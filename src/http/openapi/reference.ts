// The OpenAPI document as HTML for people. It is generated at the start and needs no script.
import { escapeHtml } from '../page/html.ts'
import { type Document, type Header, type JsonSchema, type Operation, successOf } from './format.ts'

const CREDENTIALS: Record<string, string> = {
  accessToken: 'bearer access token',
  adminToken: 'bearer admin token',
  sessionCookie: 'session cookie',
  csrfToken: 'its CSRF token in `X-CSRF-Token`',
}

/** `common`: the codes of failures that every operation has. They are explained once. */
export function toHtml(document: Document, common: readonly string[]): string {
  const { info, tags, paths, components } = document
  const all = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ path, method, operation })),
  )
  const byTag = tags.map(tag => ({
    ...tag,
    routes: all.filter(({ operation }) => operation.tags.includes(tag.name)),
  }))
  const contents = byTag.flatMap(({ routes }) =>
    routes.map(
      ({ path, method, operation: { operationId, summary } }) =>
        `<li><a href="#${operationId}">${escapeHtml(summary)}</a> ${address(method, path)}</li>`,
    ),
  )
  const sections = byTag.map(
    ({ name, description, routes }) =>
      `<h2>${escapeHtml(name)}</h2><p>${prose(description)}</p>${routes
        .map(({ path, method, operation }) => section(document, method, path, operation, common))
        .join('')}`,
  )
  const objects = Object.entries(components.schemas).map(([name, schema]) => ({
    name,
    html: `<section id="${name}"><h3>${name}</h3>${note(schema.description)}${fields(schema)}</section>`,
  }))
  const links = [...sections, ...objects.map(({ html }) => html)].join('')
  const everywhere = all
    .slice(0, 1)
    .flatMap(({ operation }) => failuresOf(document, operation))
    .filter(({ code }) => common.includes(code))
  return [
    `<p>${prose(info.description)}</p>`,
    `<p>For programs: <a href="/openapi.json">openapi.json</a>, version ${escapeHtml(info.version)}.</p>`,
    `<nav aria-label="Operations"><ul>${contents.join('')}</ul></nav>`,
    ...sections,
    '<h2>Objects</h2>',
    // The data of an answer is described with its operation.
    ...objects.filter(({ name }) => links.includes(`href="#${name}"`)).map(({ html }) => html),
    `<h2>Credentials</h2>${credentialList(components.securitySchemes)}`,
    `<h2>Failures of every operation</h2>${failures(everywhere)}`,
  ].join('\n')
}

function section(
  document: Document,
  method: string,
  path: string,
  operation: Operation,
  common: readonly string[],
): string {
  const { operationId, summary, description, security, parameters, requestBody } = operation
  const { status, response } = successOf(operation)
  const asked = parameters.filter(parameter => 'name' in parameter)
  const sent = Object.entries(response.headers).flatMap(([name, header]) =>
    'schema' in header ? { name, ...header } : [],
  )
  const body = requestBody?.content['application/json']?.schema
  const answer = response.content?.['application/json']?.schema
  // The envelope is explained once.
  const data = resolve(document, answer?.properties?.data ?? answer)
  const others = failuresOf(document, operation).filter(({ code }) => !common.includes(code))
  return `<section id="${operationId}">
    <h3>${escapeHtml(summary)}</h3>
    <p>${address(method, path)}</p>
    <p>${prose(description)}</p>
    <h4>Credential</h4><p>${prose(credentials(security))}</p>
    ${described('Parameters', asked)}
    ${body ? `<h4>Body</h4>${note(body.description)}${fields(body)}${example(document, body)}` : ''}
    <h4>Answer ${status}</h4>${note(response.description)}${fields(data)}
    ${answer ? example(document, answer) : ''}
    ${described('Headers of the answer', sent)}
    ${others.length > 0 ? `<h4>Failures</h4>${failures(others)}` : ''}
  </section>`
}

function address(method: string, path: string): string {
  return `<code><b>${method.toUpperCase()}</b> ${escapeHtml(path)}</code>`
}

/** What to know of each kind of credential. */
function credentialList(schemes: Document['components']['securitySchemes']): string {
  const rows = Object.entries(schemes).map(([name, { description }]) =>
    row(prose(capitalised(CREDENTIALS[name] ?? name)), prose(description)),
  )
  return `<dl>${rows.join('')}</dl>`
}

/** `{}` stands for the refresh token in the body. */
function credentials(security: Operation['security']): string {
  if (security.length === 0) return 'None.'
  const ways = security.map(
    way =>
      Object.keys(way)
        .map(name => CREDENTIALS[name])
        .join(' and ') || 'refresh token in the body',
  )
  return ways.length === 1 ? `${capitalised(ways.join())}.` : `One of: ${ways.join('; ')}.`
}

/** Those that every operation has are references, and are not repeated. */
function described(title: string, named: (Header & { name: string })[]): string {
  if (named.length === 0) return ''
  const properties = Object.fromEntries(
    named.map(({ name, schema, description }) => [name, { ...schema, description }]),
  )
  return `<h4>${title}</h4>${fields({ properties })}`
}

function note(text = ''): string {
  return text && `<p>${prose(text)}</p>`
}

function fields(schema: JsonSchema = {}): string {
  const { properties = {}, required = [] } = schema
  if (schema.$ref || schema.anyOf) return `<p>${typeOf(schema)}.</p>`
  const rows = Object.entries(properties).map(([name, schema]) => {
    const isOptional = required.length > 0 && !required.includes(name)
    const description = schema.description ? ` ${prose(schema.description)}` : ''
    return row(
      `<code>${name}</code>`,
      `${typeOf(schema)}${isOptional ? ', optional' : ''}.${description}`,
    )
  })
  return rows.length > 0 ? `<dl>${rows.join('')}</dl>` : ''
}

const FORMATS: Record<string, string> = { uuid: 'UUID', 'date-time': 'Time (ISO 8601, UTC)' }

function typeOf({ $ref, type = '', format = '', items, anyOf, enum: values }: JsonSchema): string {
  const name = $ref?.split('/').at(-1)
  if (name) return `<a href="#${name}">${name}</a>`
  if (anyOf) return anyOf.map(typeOf).join(' or ')
  if (items) return `List of ${typeOf(items)}`
  if (values) return `One of ${values.map(value => `<code>${value}</code>`).join(', ')}`
  const [first = '', ...orNull] = [type].flat()
  return [FORMATS[format] ?? capitalised(first), ...orNull].join(' or ')
}

type Failing = { code: string; status: string; when: string }

function failuresOf({ components }: Document, { responses }: Operation): Failing[] {
  return Object.entries(responses).flatMap(([status, response]) => {
    const name = '$ref' in response && response.$ref.split('/').at(-1)
    const { content } = (name && components.responses[name]) || {}
    const examples = Object.entries(content?.['application/json']?.examples ?? {})
    return examples.map(([code, { summary }]) => ({ code, status, when: summary }))
  })
}

function failures(failing: Failing[]): string {
  const rows = failing.map(({ code, status, when }) =>
    row(`${status} <code>${code}</code>`, `${prose(capitalised(when))}.`),
  )
  return `<dl>${rows.join('')}</dl>`
}

function row(term: string, definition: string): string {
  return `<div><dt>${term}</dt><dd>${definition}</dd></div>`
}

function example(document: Document, schema: JsonSchema): string {
  const text = JSON.stringify(exampleOf(document, schema), null, 2)
  return `<details><summary>Example</summary><pre>${escapeHtml(text)}</pre></details>`
}

function resolve({ components }: Document, schema: JsonSchema = {}): JsonSchema {
  return components.schemas[schema.$ref?.split('/').at(-1) ?? ''] ?? schema
}

/** Undefined for an optional field without an example, which is left out. */
function exampleOf(document: Document, schema: JsonSchema): unknown {
  const found = resolve(document, schema)
  const { type, properties, items, anyOf, examples, const: constant, enum: values } = found
  if (anyOf?.[0]) return exampleOf(document, anyOf[0])
  if (items) return [exampleOf(document, items)]
  if (type === 'object' || properties) {
    const values = Object.entries(properties ?? {}).map(([name, part]) => [
      name,
      exampleOf(document, part),
    ])
    return Object.fromEntries(values)
  }
  return constant ?? (examples ?? values)?.[0]
}

/** Text between backticks is code. */
function prose(text: string): string {
  return text
    .split('`')
    .map((part, i) => (i % 2 === 0 ? escapeHtml(part) : `<code>${escapeHtml(part)}</code>`))
    .join('')
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
