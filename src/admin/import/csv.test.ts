import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { csvLine, csvRecords } from './csv.ts'

describe('records and their first lines', () => {
  const cases: [what: string, text: string, [line: number, fields: string[] | null][]][] = [
    [
      'two lines',
      'a,b\nc,d\n',
      [
        [1, ['a', 'b']],
        [2, ['c', 'd']],
      ],
    ],
    [
      'CRLF, and no line end at the end',
      'a,b\r\nc,d',
      [
        [1, ['a', 'b']],
        [2, ['c', 'd']],
      ],
    ],
    [
      'empty fields',
      ',\n"",""\n',
      [
        [1, ['', '']],
        [2, ['', '']],
      ],
    ],
    ['quotes', '"a ""b"", c",d\n', [[1, ['a "b", c', 'd']]]],
    [
      'a quoted line break',
      '"a\r\nb",c\nd,e\n',
      [
        [1, ['a\r\nb', 'c']],
        [3, ['d', 'e']],
      ],
    ],
    [
      'an unclosed quote costs one line',
      'a,b\n"c,d\ne,f\ng,h\n',
      [
        [1, ['a', 'b']],
        [2, null],
        [3, ['e', 'f']],
        [4, ['g', 'h']],
      ],
    ],
    [
      'a quote that the next line closes by accident costs one line',
      '"a,b\n"c","d"\ne,f\n',
      [
        [1, null],
        [2, ['c', 'd']],
        [3, ['e', 'f']],
      ],
    ],
    [
      'a quote within a field',
      'a,5" b\nc,d\n',
      [
        [1, null],
        [2, ['c', 'd']],
      ],
    ],
    [
      'text after a quote',
      '"a"b,c\n"d",e\n',
      [
        [1, null],
        [2, ['d', 'e']],
      ],
    ],
    ['nothing', '', []],
  ]
  for (const [what, text, expected] of cases) {
    test(what, () => {
      const records = [...csvRecords(text, ',')]
      assert.deepEqual(
        records.map(({ line, fields }) => [line, fields]),
        expected,
      )
    })
  }
})

test('every record that is written can be read', () =>
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.string({ unit: 'grapheme' }), { minLength: 2, maxLength: 4 })),
      rows => {
        const records = [...csvRecords(rows.map(row => csvLine(row, ',')).join(''), ',')]
        assert.deepEqual(
          records.map(({ fields }) => fields),
          rows,
        )
      },
    ),
  ))

test('of any text nothing is lost', () =>
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('"', ',', '\n', '\r', 'a', '""', '","', '"\n"')),
      parts => {
        const text = parts.join('')
        assert.equal([...csvRecords(text, ',')].map(record => record.text).join(''), text)
      },
    ),
  ))
