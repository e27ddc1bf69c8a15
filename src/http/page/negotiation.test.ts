import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chooseLanguage } from './negotiation.ts'

const LANGUAGES = ['en', 'de', 'pt-BR', 'zh-Hant']

for (const [header, chosen] of [
  ['pt-br', 'pt-BR'],
  ['pt, de;q=0.5', 'de'],
  ['zh-Hant-TW', 'zh-Hant'],
  ['zh-TW', 'en'],
  ['de-AT-1996', 'de'],
  ['deu', 'en'],
  ['de-', 'de'],
  ['fr-FR, zh-hant;q=0.9, de', 'de'],
  ['de;q=0, pt-BR;q=0.1', 'pt-BR'],
] as const) {
  test(`${header} gets ${chosen}`, () => {
    assert.equal(chooseLanguage(header, LANGUAGES, 'en'), chosen)
  })
}

test('a header that is far too long is ignored', () => {
  assert.equal(chooseLanguage(`de${' '.repeat(998)}`, LANGUAGES, 'en'), 'de')
  assert.equal(chooseLanguage(`de${' '.repeat(999)}`, LANGUAGES, 'en'), 'en')
})
