// More of the histories of test/storage/throttle-model.test.ts.
import { test } from 'node:test'
import { ENGINES } from '../support/engines.ts'
import { IS_FULL } from '../support/proof.ts'
import { checkHistories } from './throttle-histories.ts'

const HISTORIES = IS_FULL ? { sqlite: 700, postgres: 200 } : { sqlite: 120, postgres: 40 }

for (const engine of ENGINES) {
  test(`${HISTORIES[engine]} histories of attempts on ${engine} go as in the model`, () =>
    checkHistories(engine, HISTORIES[engine]))
}
