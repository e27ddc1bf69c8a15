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
] as const) {
  test(`who asks for ${header} gets ${chosen}`, () => {
    assert.equal(chooseLanguage(header, LANGUAGES, 'en'), chosen)
  })
}
