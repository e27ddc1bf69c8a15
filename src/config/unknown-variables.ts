// Warns of misspelt variables, and of lines in `.env` that set none: they would silently have no effect.
import type { Environment } from './kinds.ts'

/** First words that variables of other programs rarely have. */
const OWN_WORDS = 'BCRYPT BRAND CORS JWT RETURN SIGNING THROTTLE TLS TRUST'.split(' ')

const REMOVED = ['DATABASE_POOLER']

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

/** One warning for each name that is not known, but similar to a known one or that of a removed variable. */
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

/** Null: the name has nothing to do with this service. Empty: no name, or several, are most similar. */
function findSimilar(name: string, known: readonly string[]): string | null {
  if (name.length > MAX_LENGTH) return null
  if (REMOVED.includes(name)) return ''
  const meant =
    known.find(candidate => hasSameLetters(name, candidate)) ??
    known.find(candidate => isOneLetterOff(name, candidate))
  if (meant) return meant
  const words = name.split('_')
  const beginsAs = (own: string) => isSameWord(own, words[0] ?? '')
  if (words.length < 2 || !OWN_WORDS.some(beginsAs)) return null
  const candidates = known.filter(candidate => beginsAs(candidate.split('_')[0] ?? ''))
  const shared = candidates.map(candidate => countShared(words, candidate.split('_')))
  const most = Math.max(...shared)
  return shared.indexOf(most) === shared.lastIndexOf(most)
    ? (candidates[shared.indexOf(most)] ?? '')
    : ''
}

/** True for PORT and PROT, and for LOG_LEVEL and LOGLEVEL. */
function hasSameLetters(one: string, other: string): boolean {
  const [a, b] = [one.replaceAll('_', ''), other.replaceAll('_', '')]
  return a.length === b.length && [...a].toSorted().join() === [...b].toSorted().join()
}

/**
 * Whether one letter is wrong, missing or added. Short names are not compared, and one letter is the limit: otherwise
 * variables of other programs match, such as POST and PORT, APP_PORT and OPS_PORT, SSL_CERT_FILE and TLS_CERT_FILE.
 */
function isOneLetterOff(name: string, known: string): boolean {
  if (known.length < 8 || Math.abs(name.length - known.length) > 1) return false
  return [...known].some(
    (_, i) => name.startsWith(known.slice(0, i)) && name.endsWith(known.slice(i + 1)),
  )
}

/** True for TRUST and TRUSTED, for KEY and KEYS, and for THROTTLE and THROTTEL. */
function isSameWord(one: string, other: string): boolean {
  const [short = '', long = ''] = [one, other].toSorted((a, b) => a.length - b.length)
  return (short.length >= 3 && long.startsWith(short)) || hasSameLetters(one, other)
}

function countShared(words: string[], candidate: string[]): number {
  return candidate.filter(word => words.some(other => isSameWord(word, other))).length
}
