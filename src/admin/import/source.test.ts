import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { openRecords } from './records.ts'
import { readSource } from './source.ts'

const MIB = Buffer.alloc(1024 * 1024, 'a')
const read = (chunks: Buffer[]) =>
  readSource('users.csv', Readable.from(chunks), undefined, new AbortController().signal)

test('256 MiB are read, and no byte more', async () => {
  const most = Array.from({ length: 256 }, () => MIB)
  assert.equal((await read(most)).text.length, 256 * MIB.length)
  await assert.rejects(
    read([...most, Buffer.from('a')]),
    /^Error: users\.csv has more than 256 MiB/,
  )
})

test('a byte order mark and characters may come in parts', async () => {
  for (const encoding of ['utf8', 'utf16le'] as const) {
    const bytes = Buffer.from('\ufeffZo\u00eb \u{1f600}', encoding)
    const source = await read([...bytes].map(byte => Buffer.of(byte)))
    assert.deepEqual(source, { text: 'Zo\u00eb \u{1f600}', encoding, damage: null })
  }
})

test('more rows than can be remembered are refused', () => {
  const source = {
    text: `email\n${'a\n'.repeat(5e6 + 1)}`,
    encoding: 'utf8',
    damage: null,
  } as const
  const open = () => openRecords('users.csv', source, { container: 'csv', delimiter: ',' })
  assert.throws(open, /users\.csv has more than 5000000 rows/)
})
