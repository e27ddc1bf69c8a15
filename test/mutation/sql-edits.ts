// The small changes that a mutant may have in a statement of SQL.
export type Edit = { from: number; to: number; text: string }

const SWAPS = bothWays('< <=', '> >=', '+ -', 'and or', 'max( min(', 'greatest( least(')
  .set('<>', '=')
  .set('bool_or', 'bool_and')
  .set('is null', 'is not null')
  .set('is not null', 'is null')
  .set('not ', '')
  .set('for update', '')
/** With "->" and "->>", which have no swap, so that they are not taken for ">". */
const SWAPPED =
  /->>?|<=|>=|<>|<|>|(?<= )[+-](?= )|\b(?:and|or|bool_or|for update|is not null|is null|not )\b|\b(?:max|min|greatest|least)\(/g
const NUMBER = /(?<![\w.])\d+(?![\w.])/g
/** Where the conditions after "where" end, outside of parentheses. */
const CLAUSE = /\b(?:and|returning|order by|group by|on conflict|limit|for update|union)\b/

export function sqlEdits(statement: string): Edit[] {
  const text = statement.replace(/--.*/g, comment => ' '.repeat(comment.length))
  const edit = (match: RegExpExecArray, to: string) => ({
    from: match.index,
    to: match.index + match[0].length,
    text: to,
  })
  const swaps = [...text.matchAll(SWAPPED)].map(match =>
    edit(match, SWAPS.get(match[0]) ?? match[0]),
  )
  const numbers = [...text.matchAll(NUMBER)].map(match => edit(match, otherNumber(match[0])))
  const conditions = [...text.matchAll(/\bwhere\b/g)].flatMap(({ index }) =>
    conditionsFrom(text, index + 'where'.length),
  )
  return [...swaps, ...numbers, ...conditions].filter(
    ({ from, to, text: changed }) => text.slice(from, to) !== changed,
  )
}

/** Each condition that is joined by "and" is left out once. */
function conditionsFrom(text: string, start: number): Edit[] {
  const edits: Edit[] = []
  let from = start
  let depth = 0
  for (let at = start; at < text.length; at++) {
    const sign = text[at]
    if (sign === '(') depth++
    if (sign === ')') depth--
    const word = depth === 0 && /\W/.test(text[at - 1] ?? '') ? clauseAt(text, at) : null
    if (depth >= 0 && sign !== '`' && !word) continue
    const condition = text.slice(from, at).trim()
    const begin = text.indexOf(condition, from)
    if (condition !== 'true')
      edits.push({ from: begin, to: begin + condition.length, text: 'true' })
    if (word !== 'and') break
    from = at + word.length
  }
  return edits
}

function clauseAt(text: string, at: number): string | null {
  const match = CLAUSE.exec(text.slice(at, at + 12))
  return match?.index === 0 ? match[0] : null
}

/** Of a large number, such as a time in milliseconds, the next one changes nothing. */
export function otherNumber(text: string): string {
  const number = Number(text.replaceAll('_', ''))
  return String(number > 10 ? number * 2 : number + 1)
}

/** Pairs such as "< <=", each of which replaces the other. */
export function bothWays(...pairs: string[]): Map<string, string> {
  const swaps = pairs.map(pair => pair.split(' ') as [string, string])
  return new Map([...swaps, ...swaps.map(([one, other]) => [other, one] as const)])
}
