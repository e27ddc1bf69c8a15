import assert from 'node:assert/strict'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { printable } from '../../log/printable.ts'
import { fieldsOf, jsonListOf, jsonOf, type Row, tableOf } from './layout.ts'

async function* batches<T>(...all: T[][]) {
  yield* all
}

/** Colours the screen red, moves up a line, starts a control sequence, and turns the text around. */
const EVIL = 'a\u001b[31m\u0007\u009b1A\u202eb'

test('no text can steer the terminal', async () => {
  const row: Row = { name: `${EVIL}\nsecond line` }
  for (const shown of [
    printable(EVIL),
    fieldsOf(row),
    await text(tableOf(batches([row]), cells => cells)),
    jsonOf(row),
    await text(jsonListOf(batches([row]))),
  ]) {
    assert.doesNotMatch(shown, /[^\P{Cc}\n]|\u202e/u)
  }
  assert.equal(fieldsOf(row).split('\n').length, 2)
})

test('JSON says exactly what is stored', async () => {
  assert.deepEqual(JSON.parse(jsonOf({ name: EVIL })), { name: EVIL })
  const list = await text(jsonListOf(batches([EVIL, 1], [null])))
  assert.deepEqual(JSON.parse(list), [EVIL, 1, null])
  assert.equal(await text(jsonListOf(batches())), '[]\n')
})

test('a table has one header, and later batches only grow wider', async () => {
  const table = tableOf(batches(['aa', 'b'], ['cccc', 'd']), letters => ({ letters, x: '1' }))
  assert.equal(
    await text(table),
    ['LETTERS  X', 'aa       1', 'b        1', 'cccc     1', 'd        1', ''].join('\n'),
  )
  const growing = tableOf(batches(['a'], ['wide'], ['b']), word => ({ w: word, x: '1' }))
  assert.equal(await text(growing), ['W  X', 'a  1', 'wide  1', 'b     1', ''].join('\n'))
})
