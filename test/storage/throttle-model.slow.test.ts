// More of the histories of test/storage/throttle-model.test.ts.
import { test } from 'node:test'
import { ENGINES } from '../support/engines.ts'
import { casesOf } from '../support/proof.ts'
import { checkHistories } from './throttle-histories.ts'

const HISTORIES = { sqlite: casesOf(700), postgres: casesOf(200) }

for (const engine of ENGINES) {
  test(`${HISTORIES[engine]} histories of attempts on ${engine} go as in the model`, () =>
    checkHistories(engine, HISTORIES[engine]))
}
