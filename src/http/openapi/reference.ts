// The OpenAPI document as HTML for people. It needs no script.
import { type Html, html } from '../page/html.ts'
import type { Document, Operation } from './document.ts'
import type { JsonSchema } from './operation.ts'

type Components = Document['components']

export function toHtml({ info, tags, paths, components }: Document): Html {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      address: html`<code><b>${method.toUpperCase()}</b> ${path}</code>`,
    })),
  )
  const contents = operations.map(
    ({ operationId, summary, address }) =>
      html`<li><a href="#${operationId}">${summary}</a> ${address}</li>`,
  )
  const sections = tags.map(({ name, description }) => {
    const ofTag = operations.filter(operation => operation.tags.includes(name))
    return html`<h2>${name}</h2><p>${prose(description)}</p>
    ${ofTag.map(operation => section(components, operation, operation.address))}`
  })
  return html`<p>${prose(info.description)}</p>
    <p>For programs: <a href="/openapi.json">openapi.json</a>, version ${info.version}.</p>
    <nav aria-label="Operations"><ul>${contents}</ul></nav>
    ${sections}
    <h2>Credentials</h2>${list(Object.entries(components.securitySchemes))}`
}

function section(components: Components, operation: Operation, address: Html): Html {
  const { operationId, summary, description, security, parameters, requestBody } = operation
  const ways = security.map(way => Object.keys(way).join(' and ') || 'refreshToken in the body')
  const body = requestBody?.content['application/json'].schema
  const responses = Object.entries(operation.responses).flatMap(([status, response]) => {
    const found = '$ref' in response ? components.responses[nameOf(response)] : response
    return found ? [[status, found] as const] : []
  })
  const { headers = {}, content } = responses[0]?.[1] ?? {}
  const answer = content?.['application/json'].schema
  return html`<section id="${operationId}">
    <h3>${summary}</h3>
    <p>${address}</p>
    <p>${prose(description)}</p>
    <p>Credential: ${ways.join(', or ') || 'none'}.</p>
    <h4>Parameters</h4>${list(parameters.map(it => [it.name, it]))}
    ${body && html`<h4>Body</h4><pre>${outline(components, body)}</pre>`}
    <h4>Answer</h4>${answer && html`<pre>${outline(components, answer)}</pre>`}
    ${list(Object.entries(headers))}
    <details><summary>All answers</summary>${list(responses)}</details>
  </section>`
}

/** An example of a value, or its type, with what to know of each field as a comment. */
function outline(components: Components, schema: JsonSchema, indent = '\n'): string {
  const found = components.schemas[nameOf(schema)] ?? schema
  const { type = '', anyOf, items, properties, required = [], examples, enum: values } = found
  if (anyOf) return anyOf.map(one => outline(components, one, indent)).join(`${indent}or `)
  if (items) return `[${outline(components, items, indent)}]`
  if (!properties) {
    const shown = found.const === undefined ? (values ?? examples) : [found.const]
    return shown?.map(value => JSON.stringify(value)).join(' | ') ?? [type].flat().join(' or ')
  }
  const inner = `${indent}  `
  const fields = Object.entries(properties).map(([name, field]) => {
    const words = [required.includes(name) ? '' : 'Optional.', field.description ?? '']
    const comment = words.join(' ').trim()
    return `${comment && `${inner}// ${comment}`}${inner}"${name}": ${outline(components, field, inner)}`
  })
  return `{${fields.join(',')}${indent}}`
}

function nameOf({ $ref = '' }: { $ref?: string }): string {
  return $ref.slice($ref.lastIndexOf('/') + 1)
}

function list(entries: (readonly [string, { description: string }])[]): Html {
  const rows = entries.map(
    ([name, { description }]) =>
      html`<div><dt><code>${name}</code></dt><dd>${prose(description)}</dd></div>`,
  )
  return html`<dl>${rows}</dl>`
}

/** Text between backticks is code. */
function prose(text: string): Html[] {
  const parts = text.split('`')
  return parts.map((part, i) => (i % 2 === 0 ? html`${part}` : html`<code>${part}</code>`))
}
