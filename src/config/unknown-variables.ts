// Warns of misspelt variables, and of lines in `.env` that set none: they would silently have no effect.
import type { Environment } from './reader.ts'

/** First words that variables of other programs rarely have. */
const OWN_WORDS = [
  'BCRYPT',
  'BRAND',
  'CORS',
  'JWT',
  'RETURN',
  'SIGNING',
  'THROTTLE',
  'TLS',
  'TRUST',
]

/** More than twice the length of any variable of this service. */
const MAX_LENGTH = 64

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

/** One warning for each name that is not known but similar to a known one. */
export function warnOfUnknown(env: Environment, known: readonly string[]): string[] {
  return Object.keys(env)
    .filter(name => !known.includes(name))
    .flatMap(name => {
      const meant = findSimilar(name.toUpperCase(), known)
      if (meant === null) return []
      const advice = meant === '' ? '' : ` Did you mean ${meant}?`
      return [`${name} is not a variable of this service and has no effect.${advice}`]
    })
}

/** Null: the name has nothing to do with this service. Empty: several names are equally similar. */
function findSimilar(name: string, known: readonly string[]): string | null {
  if (name.length > MAX_LENGTH) return null
  const typos = known.filter(candidate => isTypo(name, candidate))
  const [nearest] = typos.toSorted((a, b) => distance(name, a) - distance(name, b))
  if (nearest) return nearest
  const words = name.split('_')
  if (words.length < 2 || !OWN_WORDS.some(own => isSameWord(own, words[0] ?? ''))) return null
  const shared = known.map(candidate => countShared(words, candidate.split('_')))
  const most = Math.max(...shared)
  return shared.indexOf(most) === shared.lastIndexOf(most)
    ? (known[shared.indexOf(most)] ?? '')
    : ''
}

/**
 * Allows two neighbours that are swapped, or one typing error per 8 characters, at most two. More would match
 * variables of other programs: HOME and HOST, APP_PORT and OPS_PORT, SSL_CERT_FILE and TLS_CERT_FILE.
 */
function isTypo(name: string, candidate: string): boolean {
  const maxErrors = Math.min(2, Math.floor(candidate.length / 8))
  if (Math.abs(name.length - candidate.length) > maxErrors) return false
  const errors = distance(name, candidate)
  return errors <= maxErrors || (errors === 1 && sortLetters(name) === sortLetters(candidate))
}

function sortLetters(text: string): string {
  return [...text].toSorted().join('')
}

/** True for TRUST and TRUSTED, and for KEY and KEYS. */
function isSameWord(one: string, other: string): boolean {
  const [short = '', long = ''] = [one, other].toSorted((a, b) => a.length - b.length)
  return short === long || (short.length >= 3 && long.startsWith(short))
}

function countShared(words: string[], candidate: string[]): number {
  return candidate.filter(word => words.some(other => isSameWord(word, other))).length
}

/** How many letters to add, drop, replace or swap with a neighbour (optimal string alignment). */
function distance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  const at = (i: number, j: number) => rows[i]?.[j] ?? Number.POSITIVE_INFINITY
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j++) {
      const isSwapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row[j] = Math.min(
        at(i - 1, j) + 1,
        at(i, j - 1) + 1,
        at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1),
        isSwapped ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
  }
  return at(a.length, b.length)
}
