// The kinds of values that a variable may have: how each is checked, and what the documents say about it.
import { resolve } from 'node:path'

export type Environment = Record<string, string | undefined>

export const ENVIRONMENTS = ['development', 'production', 'test'] as const

export type Kind<T> = {
  /** For the column "values" of docs/configuration.md. */
  values: string
  /** Undefined only if the text was refused. */
  parse: (text: string, context: ReadContext) => T | undefined
}

export type ReadContext = {
  /** The name of the variable. */
  name: string
  environment: (typeof ENVIRONMENTS)[number]
  env: Environment
  /** Reports a problem, which prevents the start. */
  refuse: (problem: string) => undefined
  /** Reports a setting that is probably wrong. */
  warn: (warning: string) => void
}

export const anyText = (values: string): Kind<string> => ({ values, parse: text => text })
export const path: Kind<string> = { values: 'path', parse: text => resolve(text) }

export function integer(min: number, max: number, minInTests = min): Kind<number> {
  const inTests = minInTests === min ? '' : ` (from ${minInTests} with \`NODE_ENV=test\`)`
  return {
    values: `${min} to ${max}${inTests}`,
    parse(text, { name, environment, refuse }) {
      const lowest = environment === 'test' ? minInTests : min
      const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
      if (value >= lowest && value <= max) return value
      return refuse(`${name} must be a whole number from ${lowest} to ${max}, not "${text}".`)
    },
  }
}

export function choice<T extends string>(allowed: readonly T[]): Kind<T> {
  return {
    values: allowed.map(value => `\`${value}\``).join(', '),
    parse(text, { name, refuse }) {
      const value = allowed.find(candidate => candidate === text)
      return value ?? refuse(`${name} must be one of ${allowed.join(', ')}, not "${text}".`)
    },
  }
}

export function line(maxCharacters: number): Kind<string> {
  return {
    values: `at most ${maxCharacters} characters`,
    parse(text, { name, refuse }) {
      if ([...text].length <= maxCharacters && !/\p{Cc}/u.test(text)) return text
      return refuse(`${name} must be one line of at most ${maxCharacters} characters.`)
    },
  }
}

const ROLE_MAX_CHARACTERS = 50

/** `['*']` stands for every role. */
export const roles: Kind<readonly string[]> = {
  values: 'roles, comma-separated; `*` alone: every role',
  parse(text, { name, refuse }) {
    const entries = text === '' ? [] : text.split(',').map(entry => entry.trim())
    // No pattern is matched, and one that demands nothing would go unnoticed.
    const isRole = (entry: string) =>
      /^[^*\p{Cc}]+$/u.test(entry) && [...entry].length <= ROLE_MAX_CHARACTERS
    if (text === '*' || entries.every(isRole)) return entries
    return refuse(
      `${name} takes roles of 1 to ${ROLE_MAX_CHARACTERS} characters such as admin,editor, or * alone for every role; not "${text}".`,
    )
  },
}

/** The value has the form #rrggbb. */
export const color: Kind<string> = {
  values: '`#rgb` or `#rrggbb`',
  parse(text, { name, refuse }) {
    if (!/^#([\da-f]{3}|[\da-f]{6})$/i.test(text)) {
      return refuse(`${name} must look like #3451b2 or #35b, not "${text}".`)
    }
    return text.toLowerCase().replace(/^#(.)(.)(.)$/, '#$1$1$2$2$3$3')
  },
}
