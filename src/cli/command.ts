// Makes the command of an operation: its arguments and options, its help, and what it prints.
import { type Command, Option } from 'commander'
import { countParser, parseEmail, parseId } from '../admin/input/values.ts'
import { jsonOf } from '../admin/layout.ts'
import type { Field, Operation } from '../admin/operation.ts'
import type { AdminDeps } from '../admin/operations/deps.ts'
import { Failure, WrongUse } from '../system/failures.ts'
import { type Context, printList } from './context.ts'
import { addExamples } from './examples.ts'
import { withMigratedStore, withStore } from './with-store.ts'

const PAGE_ITEMS = 1_000

type Options = { json?: boolean | undefined; yes?: boolean | undefined }
/** Adds what a command asks for, or reads from standard input. */
type Complete = (admin: AdminDeps, input: Record<string, unknown>) => Promise<object>

export function addCommand(
  group: Command,
  operation: Operation,
  context: Context,
  complete?: Complete,
): Command {
  const { summary, description, fields, argument, list, print, question } = operation
  const name = operation.command?.split(' ')[1] ?? ''
  const command = group
    .command(name)
    .summary(phrase(summary))
    .description(plain([`${summary}.`, description].join(' ').trim()))
  if (operation.alias) command.alias(operation.alias)
  const [, subject] = /:(user|id)/.exec(operation.request ?? ':user') ?? []
  const named = argument === undefined ? subject : argument
  const given = fields[argument ?? '']
  if (argument && given) command.argument(`<${argument}>`, phrase(given.about), given.parse?.(''))
  else if (named === 'id') command.argument('<id>', 'id', parseId)
  else if (named) command.argument('<email>', 'email of the user', parseEmail)
  for (const [field, about] of Object.entries(fields)) {
    if (about.only !== 'route' && field !== argument) command.addOption(toOption(field, about))
  }
  if (list) {
    command.option('--limit <n>', 'at most this many', countParser('--limit'))
    const position = `--${list.positionName ?? 'after'}`
    command.option(`${position} <position>`, 'where the list begins', list.parsePosition(position))
  }
  if (question) command.option('--yes', 'do it without asking')
  if (list || print || isReading(operation)) command.option('--json', 'print JSON')
  addExamples(
    command,
    (operation.examples ?? []).map(example => `${operation.command} ${example}`),
  )
  return command.action((...args: unknown[]) => {
    const { json, yes, ...typed } = args.at(-2) as Options & Record<string, unknown>
    const input = { ...typed, ...(named && { [argument ?? 'named']: args[0] }) }
    return perform(context, operation, input, { json, yes }, complete)
  })
}

export async function perform(
  context: Context,
  operation: Operation,
  input: Record<string, unknown>,
  { json, yes }: Options,
  complete?: Complete,
): Promise<void> {
  const { terminal } = context
  const { question, list, print } = operation
  const isAsked = question && !yes
  if (isAsked && !terminal.isInteractive) {
    throw new WrongUse('There is no terminal to ask for confirmation: add --yes.')
  }
  const open = operation.isFirst ? withMigratedStore : withStore
  return open(context, async ({ admin }) => {
    if (isAsked && !(await terminal.confirm(question(String(input.named))))) {
      throw new Failure('Cancelled; nothing was changed.')
    }
    if (list) return printPages(context, admin, list, input, json)
    const completed = { named: '', ...input, ...(await complete?.(admin, input)) }
    const { data = {}, said } = await operation.run(admin, completed)
    if (typeof said === 'string' && !json) terminal.say(said)
    else if (said && typeof said === 'object') {
      terminal.announce(operation.event ?? '', said.facts, said.sentence)
    }
    const isShown = json || (!print && isReading(operation))
    const text = isShown ? jsonOf(data) : (print?.(data, completed, admin.clock()) ?? '')
    await terminal.print(text).catch(error => {
      const advice = adviceFor({ ...data })
      throw advice ? new Failure(advice, { cause: error }) : error
    })
  })
}

/** What to do if the data could not be printed: secrets are stored already, and never shown again. */
function adviceFor({ password, email, token, name }: Record<string, unknown>): string | null {
  if (password)
    return `The password of ${email} was set but could not be printed: run "users set-password".`
  return token
    ? `The token ${name} was added but could not be printed: revoke it, and add another one.`
    : null
}

async function printPages(
  context: Context,
  admin: AdminDeps,
  { read, toRow, say, positionName = 'after' }: NonNullable<Operation['list']>,
  { limit = Number.MAX_SAFE_INTEGER, ...input }: Record<string, unknown>,
  json: boolean | undefined,
): Promise<void> {
  const { [positionName]: start = null, ...filter } = input
  const given = { named: '', ...filter }
  let next = start as string | number | null
  async function* pages() {
    let left = Number(limit)
    do {
      const page = await read(admin, given, { from: next, limit: Math.min(left, PAGE_ITEMS) })
      next = page.next
      left -= page.items.length
      yield page.items
    } while (next !== null && left > 0)
  }
  const now = admin.clock()
  const listed = await printList(context, pages(), { json: json ?? false }, item =>
    toRow(item, now),
  )
  const sentence = json && next === null ? null : say(given, listed, next)
  if (sentence) context.terminal.say(sentence)
}

function toOption(field: string, { about, type, enum: choices, parse, isRequired }: Field): Option {
  const flag = `--${field.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`
  const option = new Option(type === 'boolean' ? flag : `${flag} <${field}>`, phrase(about))
  if (choices) option.choices(choices)
  if (parse) option.argParser(parse(flag))
  return option.makeOptionMandatory(isRequired === true)
}

/** Without a form for people, its data are printed as JSON. */
const isReading = ({ data, request }: Operation) => Boolean(data && request?.startsWith('GET'))

const plain = (text: string) => text.replaceAll('`', '')

/** As Commander's own texts are written: without a capital letter and a full stop. */
const phrase = (text: string) =>
  plain(text.charAt(0).toLowerCase() + text.slice(1).replace(/\.$/, ''))
