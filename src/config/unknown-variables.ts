// Warns of misspelt and invented variables, and of lines in `.env` that set none: they would silently have no effect.
import type { Environment } from './kinds.ts'
import { VARIABLES } from './variables.ts'

/** One warning for each line of `.env` without "=". It does not quote the line, which may be a part of a secret. */
export function warnOfIgnoredLines(text: string): string[] {
  // A value in quotes may have several lines.
  const unquoted = text.replace(/(=[ \t]*)(["'`]).*?\2/gs, (value, start: string) =>
    start.concat(value.replace(/[^\n]/g, '')),
  )
  return unquoted.split('\n').flatMap((line, index) => {
    if (/^\s*(#|$)/.test(line) || line.includes('=')) return []
    return [`.env, line ${index + 1}, has no "=" and has no effect. Write NAME=value.`]
  })
}

/** Our variables begin with these words, and so do those of other programs. */
const SHARED = `NODE DATABASE DATA HOST PORT HOME LOG LOGIN PASSWORD ACCESS CODE MAX`.split(' ')
const OURS = VARIABLES.map(({ name }) => name.split('_', 1)[0]).filter(
  (word = '') => !SHARED.includes(word),
)
/** Those of a Kubernetes service called "admin", and of desktops. */
const FOREIGN = /^[^=]*(_SERVICE_(HOST|PORT)|_PORT_\d+_|_PORT=tcp:)|^SESSION_MANAGER=/

/** One warning for each name that is similar to a known one, or begins with a word of ours. */
export function warnOfUnknown(env: Environment): string[] {
  const known = VARIABLES.map(({ name }) => name)
  return Object.entries(env).flatMap(([name, value]) => {
    if (known.includes(name)) return []
    const meant = known.find(candidate => isMisspelt(name.toUpperCase(), candidate))
    const [, word] = /^([A-Z]+)_\w{1,40}$/i.exec(name) ?? []
    const isOurs = OURS.includes(word?.toUpperCase()) && !FOREIGN.test(`${name}=${value}`)
    if (!meant && !isOurs) return []
    const question = meant ? ` Did you mean ${meant}?` : ''
    return [`${name} is not a variable of this service and has no effect.${question}`]
  })
}

/**
 * One letter in five may be wrong, two at most, and not the first one: otherwise variables of other programs match,
 * such as POST and PORT, APP_PORT and OPS_PORT, SSL_CERT_FILE and TLS_CERT_FILE.
 */
function isMisspelt(name: string, known: string): boolean {
  return name[0] === known[0] && isWithin(Math.min(2, Math.floor(known.length / 5)), name, known)
}

/** Whether at most so many letters are wrong, missing, added or swapped with the next one. */
function isWithin(edits: number, one: string, other: string): boolean {
  if (one === other || edits === 0) return one === other
  let same = 0
  while (one[same] === other[same]) same += 1
  const [a, b] = [one.slice(same), other.slice(same)]
  return (
    isWithin(edits - 1, a.slice(1), b.slice(1)) ||
    isWithin(edits - 1, a.slice(1), b) ||
    isWithin(edits - 1, a, b.slice(1)) ||
    (a[0] === b[1] && a[1] === b[0] && isWithin(edits - 1, a.slice(2), b.slice(2)))
  )
}
