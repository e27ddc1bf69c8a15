// The tables of documents that follow from tables of the code. "npm run generate" writes them between
// their markers, and documents.test.ts compares them.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { ADMIN_API } from '../src/admin/api/description.ts'
import { addressOf, optionsOf } from '../src/admin/api/route.ts'
import type { Operation } from '../src/admin/operation.ts'
import { OPERATIONS } from '../src/admin/operations.ts'
import { PROGRAM } from '../src/cli/examples.ts'
import { createProgram } from '../src/cli/program.ts'
import { createTerminal } from '../src/cli/terminal.ts'
import { OPERATOR_VARIABLES } from '../src/config/variables.ts'
import { ADMIN_FAILURES, PUBLIC_FAILURES } from '../src/http/answer/envelope.ts'
import { WHEN } from '../src/http/openapi/public-api.ts'

const PROJECT = resolve(import.meta.dirname, '..')

const code = (text: string) => text && `\`${text}\``

function table(head: string[], rows: string[][]): string {
  const toLine = (cells: string[]) => `|${cells.map(cell => ` ${cell} `).join('|')}|\n`
  return `${toLine(head)}|${'---|'.repeat(head.length)}\n${rows.map(toLine).join('')}`
}

function variablesOf(group: string): string {
  const rows = OPERATOR_VARIABLES.filter(variable => variable.group === group)
  return table(
    ['variable', 'default', 'values', 'meaning'],
    rows.map(row => [code(row.name), code(row.byDefault ?? ''), row.kind.values, row.sentence]),
  )
}

/** A row for each command, with its arguments and options. */
function rowsOf(command: Command): string[][] {
  if (command.commands.length > 0) return command.commands.flatMap(rowsOf)
  const options = command.options.map(({ flags, mandatory }) => (mandatory ? flags : `[${flags}]`))
  const usage = command.createHelp().commandUsage(command)
  const words = [usage.replace(`${PROGRAM} `, '').replace(' [options]', ''), ...options].join(' ')
  const does = command.description()
  return [[code(words).replaceAll('|', '\\|'), does.charAt(0).toUpperCase() + does.slice(1)]]
}

async function commands(): Promise<string> {
  const context = { terminal: createTerminal(process), env: {}, envFileWarnings: [] }
  const program = await createProgram({ ...context, clock: () => new Date() }, undefined)
  return table(['command', 'does'], rowsOf(program))
}

/** Such as `{name, role?}`. */
function fieldsIn(schema: unknown): string {
  const { properties = {}, required = [], anyOf } = Object(schema)
  if (anyOf) return anyOf.map(fieldsIn).join(' or ')
  const names = Object.keys(properties).map(name => (required.includes(name) ? name : `${name}?`))
  return code(names.length > 0 ? `{${names.join(', ')}}` : '')
}

function requests(): string {
  const rows = Object.entries<Operation>(OPERATIONS).flatMap(([id, operation]) => {
    const address = addressOf(operation)
    if (!address) return []
    const { querystring, body, response } = Object(optionsOf(id, operation).config).described
    const { data } = Object(Object.values(response)[0]).schema.properties
    const does = `${operation.summary}. ${operation.description}`
    const taken = fieldsIn(querystring) || fieldsIn(body)
    return [[code(`${address.method} ${address.url}`), does, taken, fieldsIn(data)]]
  })
  return table(['request', 'does', 'query, or body', 'data'], rows)
}

function failures(codes: Record<string, { status: number }>, when: Record<string, string>): string {
  const rows = Object.entries(codes).map(([name, { status }]) => [
    code(name),
    `${status}`,
    `${when[name]}`,
  ])
  return table(['code', 'status', 'when'], rows)
}

/** The tables of each document. */
const TABLES: Record<string, Record<string, string>> = {
  'docs/configuration.md': Object.fromEntries(
    OPERATOR_VARIABLES.map(({ group }) => [group, variablesOf(group)]),
  ),
  'docs/cli.md': { commands: await commands() },
  'docs/admin-api.md': {
    requests: requests(),
    failures: failures(ADMIN_FAILURES, ADMIN_API.when),
  },
  'docs/api.md': { failures: failures(PUBLIC_FAILURES, WHEN) },
}

export const DOCUMENTS = Object.keys(TABLES)

/** The text of a document with the tables of the code. */
export function withTables(file: string): string {
  return Object.entries(TABLES[file] ?? {}).reduce(
    (text, [name, rows]) => {
      const marked = new RegExp(`(<!-- table ${name}, .*\n)[^]*?(?=<!-- end -->)`)
      assert.match(text, marked, `${file} has no place for the table "${name}"`)
      return text.replace(marked, (_, begin: string) => `${begin}\n${rows}\n`)
    },
    readFileSync(join(PROJECT, file), 'utf8'),
  )
}

export function writeTables(): void {
  for (const file of DOCUMENTS) writeFileSync(join(PROJECT, file), withTables(file))
}
