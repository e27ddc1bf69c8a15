// More of the histories of test/storage/throttle-model.contract.ts.
import { test } from 'node:test'
import { ENGINES } from '../engines.ts'
import { checkHistories } from '../storage/throttle-histories.ts'

const HISTORIES = { sqlite: 700, postgres: 200 }

for (const engine of ENGINES) {
  test(`${HISTORIES[engine]} histories of attempts on ${engine} go as in the model`, () =>
    checkHistories(engine, HISTORIES[engine]))
}
