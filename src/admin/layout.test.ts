import assert from 'node:assert/strict'
import { test } from 'node:test'
import { printable } from '../log/printable.ts'
import { createJsonList, createTable, fieldLines, JsonText, jsonOf, type Row } from './layout.ts'

/** Turns the screen red, rings the bell, moves up a line and reverses the direction of the text. */
const EVIL = 'a\u001b[31m\u0007\u009b1A\u202eb'

test('control characters in a text do not reach the terminal', () => {
  const row: Row = { name: `${EVIL}\nsecond line` }
  for (const shown of [
    printable(EVIL),
    fieldLines(row),
    createTable<Row>(cells => cells)([row]),
    jsonOf(row),
    createJsonList()([row]),
  ]) {
    assert.doesNotMatch(shown, /[^\P{Cc}\n]|\u202e/u)
  }
  assert.equal(fieldLines(row).split('\n').length, 2)
})

test('JSON holds exactly the stored values', () => {
  assert.deepEqual(JSON.parse(jsonOf({ name: EVIL })), { name: EVIL })
  const list = [[EVIL, 1], [null], []].map(createJsonList()).join('')
  assert.deepEqual(JSON.parse(list), [EVIL, 1, null])
  assert.equal(createJsonList()([]), '[]\n')
})

test('JSON that is made piece by piece is the same text', async () => {
  const lists = { some: [[EVIL], [], [{ a: [1] }, null]], none: [[]], read: [] }
  const rest = { one: { b: [] }, nothing: null }
  const batches = Object.entries(lists).map(([name, list]) => [
    name,
    ReadableStream.from<unknown[]>(list),
  ])
  const json = await JsonText.of({ ...rest, ...Object.fromEntries(batches) })
  const whole = Object.entries(lists).map(([name, list]) => [name, list.flat()])
  assert.equal(jsonOf(json), jsonOf({ ...rest, ...Object.fromEntries(whole) }))
})

test('a table has one header, and its columns never become narrower in later batches', () => {
  const table = createTable((letters: string) => ({ letters, x: '1' }))
  assert.equal(
    table(['aa', 'b']) + table(['cccc', 'd']),
    ['LETTERS  X', 'aa       1', 'b        1', 'cccc     1', 'd        1', ''].join('\n'),
  )
  const growing = createTable((word: string) => ({ w: word, x: '1' }))
  assert.equal(
    [['a'], ['wide'], ['b']].map(growing).join(''),
    ['W  X', 'a  1', 'wide  1', 'b     1', ''].join('\n'),
  )
})
