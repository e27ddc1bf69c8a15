import assert from 'node:assert/strict'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { printable } from '../log/printable.ts'
import { fieldLines, jsonListOf, jsonOf, type Row, tableOf } from './layout.ts'

async function* batches<T>(...all: T[][]) {
  yield* all
}

/** Turns the screen red, rings the bell, moves up a line and reverses the direction of the text. */
const EVIL = 'a\u001b[31m\u0007\u009b1A\u202eb'

test('control characters in a text do not reach the terminal', async () => {
  const row: Row = { name: `${EVIL}\nsecond line` }
  for (const shown of [
    printable(EVIL),
    fieldLines(row),
    await text(tableOf(batches([row]), cells => cells)),
    jsonOf(row),
    await text(jsonListOf(batches([row]))),
  ]) {
    assert.doesNotMatch(shown, /[^\P{Cc}\n]|\u202e/u)
  }
  assert.equal(fieldLines(row).split('\n').length, 2)
})

test('JSON holds exactly the stored values', async () => {
  assert.deepEqual(JSON.parse(jsonOf({ name: EVIL })), { name: EVIL })
  const list = await text(jsonListOf(batches([EVIL, 1], [null])))
  assert.deepEqual(JSON.parse(list), [EVIL, 1, null])
  assert.equal(await text(jsonListOf(batches())), '[]\n')
})

test('a table has one header, and its columns never become narrower in later batches', async () => {
  const table = tableOf(batches(['aa', 'b'], ['cccc', 'd']), letters => ({ letters, x: '1' }))
  assert.equal(
    await text(table),
    ['LETTERS  X', 'aa       1', 'b        1', 'cccc     1', 'd        1', ''].join('\n'),
  )
  const growing = tableOf(batches(['a'], ['wide'], ['b']), word => ({ w: word, x: '1' }))
  assert.equal(await text(growing), ['W  X', 'a  1', 'wide  1', 'b     1', ''].join('\n'))
})
