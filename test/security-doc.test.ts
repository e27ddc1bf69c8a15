import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'

const DOCS = resolve(import.meta.dirname, '../docs')
const ROW = /^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$/
const PROOF = /\[[^\]]+\]\(([^)]+)\) “([^”]+)”/g

const rows = readFileSync(resolve(DOCS, 'security.md'), 'utf8')
  .split('\n')
  .flatMap(line => {
    const [, number, requirement = '', how = '', proof = ''] = ROW.exec(line) ?? []
    return number ? [{ number: Number(number), requirement, how, proof }] : []
  })

test('every point of the checklist is listed once', () => {
  const expected = Array.from({ length: 81 }, (_, i) => i + 1).filter(number => number !== 48)
  assert.deepEqual(
    rows.map(({ number }) => number),
    expected,
  )
})

test('every test that is named as a proof exists', () => {
  for (const { number, proof } of rows) {
    const proofs = [...proof.matchAll(PROOF)]
    assert.ok(proofs.length > 0 || proof.startsWith('does not apply'), `${number} has no proof`)
    for (const [, file = '', name = ''] of proofs) {
      const path = resolve(DOCS, file)
      assert.ok(existsSync(path), `${number}: ${file}`)
      assert.ok(readFileSync(path, 'utf8').includes(name), `${number}: “${name}” in ${file}`)
    }
  }
})
