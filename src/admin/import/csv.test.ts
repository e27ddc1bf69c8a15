import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { csvRecordsOf } from './csv.ts'
import { type Line, linesOf, MAX_LINE_BYTES } from './lines.ts'

async function* chunksOf(text: Buffer, size: number) {
  for (let at = 0; at < text.length; at += size) yield text.subarray(at, at + size)
}

/** All records, read in chunks of this size. */
async function read(text: string | Buffer, size = 7) {
  const records = []
  let open: Line[] = []
  for await (const lines of linesOf(chunksOf(Buffer.from(text), size))) {
    const found = csvRecordsOf([...open, ...lines], false, ',')
    open = found.open
    records.push(...found.records)
  }
  records.push(...csvRecordsOf(open, true, ',').records)
  return records.map(({ line, bytes, fields }) => ({ line, fields, bytes: bytes.toString() }))
}

const NOT_CLOSED = 'a quote is not closed'
const MISPLACED = 'a quote is not at the start or the end of a field'

describe('records and their first lines', () => {
  const cases: [what: string, text: string, [line: number, fields: string[] | string][]][] = [
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
        [2, NOT_CLOSED],
        [3, ['e', 'f']],
        [4, ['g', 'h']],
      ],
    ],
    [
      'a quote that the next line closes by accident costs one line',
      '"a,b\n"c","d"\ne,f\n',
      [
        [1, NOT_CLOSED],
        [2, ['c', 'd']],
        [3, ['e', 'f']],
      ],
    ],
    [
      'a quote within a field',
      'a,5" b\nc,d\n',
      [
        [1, NOT_CLOSED],
        [2, ['c', 'd']],
      ],
    ],
    [
      'text after a quote',
      '"a"b,c\n"d",e\n',
      [
        [1, MISPLACED],
        [2, ['d', 'e']],
      ],
    ],
    ['nothing', '', []],
  ]
  for (const [what, text, expected] of cases) {
    test(what, async () => {
      for (const size of [1, 2, 3, 7, 1_000]) {
        const records = await read(text, size)
        assert.deepEqual(
          records.map(({ line, fields }) => [line, fields]),
          expected,
        )
      }
    })
  }
})

test('what is not UTF-8 is rejected alone', async () => {
  const text = Buffer.concat([
    Buffer.from('a,b\n'),
    Buffer.of(0xff, 0x2c, 0x0a),
    Buffer.from('c,d\n'),
  ])
  const records = await read(text)
  assert.deepEqual(
    records.map(({ fields }) => fields),
    [
      ['a', 'b'],
      'it is not valid UTF-8: if the file comes from Excel, add --encoding latin1',
      ['c', 'd'],
    ],
  )
})

test('of an endless line the start is kept, and the next line is read', async () => {
  const long = 'x'.repeat(3 * MAX_LINE_BYTES)
  const records = await read(`a,b\n${long}\nc,d\n`, 500_000)
  assert.deepEqual(
    records.map(({ line }) => line),
    [1, 2, 3],
  )
  assert.ok(records.every(({ bytes }) => bytes.length <= 2 * MAX_LINE_BYTES))
  assert.match(String(records[1]?.fields), /^the line has more than/)
  assert.deepEqual(records.at(-1)?.fields, ['c', 'd'])
})

test('every record that is written can be read', () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.string({ unit: 'grapheme' }), { minLength: 2, maxLength: 4 })),
      fc.integer({ min: 1, max: 20 }),
      async (rows, size) => {
        const quoted = (field: string) => `"${field.replaceAll('"', '""')}"`
        const text = rows.map(row => `${row.map(quoted).join()}\n`).join('')
        const records = await read(text, size)
        assert.deepEqual(
          records.map(({ fields }) => fields),
          rows,
        )
      },
    ),
  ))

test('of any bytes none is lost', () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom('"', ',', '\n', '\r', 'a', '""', '","', '"\n"')),
      fc.integer({ min: 1, max: 9 }),
      async (parts, size) => {
        const text = parts.join('')
        const records = await read(text, size)
        const all = records.map(({ bytes }) => bytes).join('')
        assert.equal(all, text === '' || text.endsWith('\n') ? text : `${text}\n`)
      },
    ),
  ))
