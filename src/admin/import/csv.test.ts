import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { csvLine, csvRecords, fieldsOf } from './csv.ts'

type Read = [line: number, fields: string[] | null]

describe('records and their first lines', () => {
  const AB: Read = [1, ['a', 'b']]
  const cases: [what: string, text: string, ...Read[]][] = [
    ['two lines', 'a,b\nc,d\n', AB, [2, ['c', 'd']]],
    ['CRLF, and no line end at the end', 'a,b\r\nc,d', AB, [2, ['c', 'd']]],
    ['empty fields', ',\n"",""\n', [1, ['', '']], [2, ['', '']]],
    ['quotes', '"a ""b"", c",d\n', [1, ['a "b", c', 'd']]],
    ['a quoted line break', '"a\r\nb",c\nd,e\n', [1, ['a\r\nb', 'c']], [3, ['d', 'e']]],
    ['blank lines', '\n \r\na,b\n\nc,d\n\n', [3, ['a', 'b']], [5, ['c', 'd']]],
    ['NULL, and text', 'NULL,\\N\n"NULL",null\n', [1, ['', '']], [2, ['NULL', 'null']]],
    ['an unclosed quote costs one line', 'a,b\n"c,d\ne,f\n', AB, [2, null], [3, ['e', 'f']]],
    [
      'a quote that the next line closes by accident costs one line',
      '"a,b\n"c","d"\ne,f\n',
      [1, null],
      [2, ['c', 'd']],
      [3, ['e', 'f']],
    ],
    ['a quote within a field', 'a,5" b\nc,d\n', [1, null], [2, ['c', 'd']]],
    ['text after a quote', '"a"b,c\n"d",e\n', [1, null], [2, ['d', 'e']]],
    ['nothing', ''],
  ]
  for (const [what, text, ...expected] of cases) {
    test(what, () => {
      const records = [...csvRecords(text, ',')]
      assert.deepEqual(
        records.map(({ line, text }) => [line, fieldsOf(text, ',')]),
        expected,
      )
    })
  }
})

const LONG = 'b'.repeat(1e8)
const UNCLOSED = /A quote in line 2 is not closed within 1000000 characters/

/** If time grew with the square of the length, they would take hours. */
for (const [what, text, failure] of [
  ['an unclosed quote before many lines', `a,b\n"a${'b,c\n'.repeat(25e6)}`, UNCLOSED],
  ['a field with many quotes', `a,b\n"a${'b""\n'.repeat(25e6)}"`, UNCLOSED],
  ['an unclosed quote', `a,b\n"${LONG}`, UNCLOSED],
  ['a field in quotes', `a,b\n"${LONG}",c\n`, null],
  ['a field', `a,b\n${LONG},"c"\n`, null],
  ['many unclosed quotes', '"a\n""\n'.repeat(5e5), null],
] as const) {
  test(`${what}: time grows with the length`, () => {
    const read = () => {
      for (const record of csvRecords(text, ',')) fieldsOf(record.text, ',')
    }
    if (failure) assert.throws(read, failure)
    else read()
  })
}

test('every record that is written can be read', () =>
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.string({ unit: 'grapheme' }), { minLength: 2, maxLength: 4 })),
      rows => {
        const records = [...csvRecords(rows.map(row => csvLine(row, ',')).join(''), ',')]
        assert.deepEqual(
          records.map(({ text }) => fieldsOf(text, ',')),
          rows,
        )
      },
    ),
  ))

test('of any text nothing is lost but blank lines', () =>
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('"', ',', '\n', '\r', 'a', '""', '","', '"\n"')),
      parts => {
        const text = parts.join('')
        const kept = [...csvRecords(text, ',')].map(record => record.text).join('')
        const lines = (of: string) => of.split('\n').filter(line => line.trim() !== '')
        assert.deepEqual(lines(kept), lines(text))
      },
    ),
  ))
