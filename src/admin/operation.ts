// What an administrator can do, described once. command.ts makes the command of it, api/route.ts the route of the admin
// API and its part of the document, and console/ a form on the page of a person.
import type { FailureCode } from '../http/answer/envelope.ts'
import type { Row } from './layout.ts'
import type { AdminDeps } from './operations/deps.ts'
import type { Explanation } from './operations/explain-user.ts'

/** A value that an operation takes: an option of the command, and a field of the query or body. */
export type Field = {
  /** A sentence for the help and the document. */
  about: string
  /** By default text. */
  type?: 'boolean'
  enum?: readonly string[]
  /** `label` is what messages call the value: `--until` or `until`. */
  parse?: (label: string) => (typed: string) => unknown
  examples?: readonly unknown[]
  isRequired?: true
  /** In a form of the console: its label, a text for each value to choose from, and the value at the beginning. */
  input?: { label?: string; choices?: Record<string, string>; initial?: string }
  /** If only the command, or only the route, has it. */
  only?: 'command' | 'route'
}
export type Fields = Record<string, Field>

type Value<F> = F extends { parse: (label: string) => (typed: string) => infer T }
  ? T
  : F extends { enum: readonly (infer T)[] }
    ? T
    : F extends { type: 'boolean' }
      ? boolean
      : string

/** `named` is the user or session that the operation is about. */
export type Input<F extends Fields> = { named: string } & {
  [K in keyof F as F[K] extends { isRequired: true } ? K : never]: Value<F[K]>
} & {
  [K in keyof F as F[K] extends { isRequired: true } ? never : K]?: Value<F[K]>
}

/** The data of the answer, and what a command says. A sentence with facts is also logged, as the operation's event. */
export type Done = {
  data?: object
  said?: { facts: Record<string, unknown>; sentence: string } | string
}

/** A list is read page by page. `next` is the position at which the next page begins; null at the end. */
export type Listed<T, P> = { items: T[]; next: P | null }
type List<I, T, P> = {
  /** The name of the items in the answer. */
  items: string
  schema: object
  /** By default `after`. */
  positionName?: string
  parsePosition: (label: string) => (typed: string) => P
  read: (
    deps: AdminDeps,
    input: I,
    page: { from: P | null; limit: number },
  ) => Promise<Listed<T, P>>
  toRow: (item: T, now: Date) => Row
  /** What a command says in the end. `next` is null if there are no more. */
  say: (input: I, listed: number, next: P | null) => string | null
}

/** Of the two kinds of people at the console, those that may do it; administrators may do both. */
export type For = 'helpdesk' | 'administrator'

/**
 * The form of an operation on the page of a person, without its parts that have a default: the path is the name of the
 * command, the texts are those of the operation, and the fields are all.
 */
export type Form = {
  /** Below the address of the person. */
  path?: string
  title?: string
  about?: string
  /** Of the button. */
  label?: string
  /** It asks for these fields. */
  asks?: readonly string[]
  /** What it sends besides. */
  sends?: Record<string, unknown>
  /** The fields have the values of the person, and only those that were changed are sent. */
  isEdit?: true
  /** What a page of its own asks before; by default the question of the operation. */
  question?: (name: string) => string
  /** There the email must be typed. */
  isEmailTyped?: true
  /** Whether it can be of use for the person. */
  isFor?: (person: Explanation) => boolean
  /** Whether it is what helps the person to log in. */
  helps?: (person: Explanation) => boolean
  /** People that only administrators may do it to. */
  isBeyondHelpdesk?: (person: Explanation, now: Date) => boolean
  /** Whether it needs a login of the last minutes. */
  needsRecentLogin?: (input: Record<string, unknown>) => boolean
  /** What the page says when it is done. */
  done?: string
  /** It stands in a place of its own. */
  isElsewhere?: true
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
export type About<F extends Fields> = {
  /** Such as `users lock`. Null if there is none. */
  command: string | null
  /** Another name of the command. */
  alias?: string
  /** Such as `PUT /users/:user/lock`. Null if only a command does it. */
  request: `${Method} /${string}` | null
  summary: string
  description?: string
  /** What only callers of the API need to know. */
  forCallers?: string
  /** Null: it is not in the console. */
  for: For | null
  form?: Form
  /** Arguments of the command, for its help. */
  examples?: string[]
  fields?: F
  /** The field that is the argument of the command; null: none; by default the user or session. */
  argument?: string | null
  /** The schema of the data; by default there are none. */
  data?: { title: string }
  status?: 201
  failures?: FailureCode[]
  /** The event that a command logs when it has done it. */
  event?: `admin.${string}`
  /** Each request is logged, as those that change something are. */
  isLogged?: true
  /** The command creates or updates the tables first. */
  isFirst?: true
  /** What a command asks before it does it. */
  question?: (named: string) => string
}

/** The types of the fields are checked below, and lost in the table of all operations. */
type AnyInput = { named: string; [field: string]: unknown }
export type Operation = About<Fields> & {
  fields: Fields
  run: (deps: AdminDeps, input: AnyInput) => Promise<Done>
  /** The data as text for people. */
  print?: (data: object, input: AnyInput, now: Date) => string
  list?: List<AnyInput, unknown, string | number>
}

export function operation<const F extends Fields = Record<never, never>, D extends object = object>(
  about: About<F>,
  run: (deps: AdminDeps, input: Input<F>) => Promise<Done & { data?: D }>,
  print?: (data: D, input: Input<F>, now: Date) => string,
): Operation {
  return { fields: {}, ...about, run, ...(print && { print }) } as unknown as Operation
}

export function listOperation<const F extends Fields, T, P extends string | number>(
  about: About<F>,
  list: List<Input<F>, T, P>,
): Operation {
  const run = () => Promise.reject(new Error('a list is read page by page'))
  return { fields: {}, ...about, run, list } as unknown as Operation
}
