// The throttle of each engine does what its model does. `npm run test:slow` runs more histories.
import { test } from 'node:test'
import { ENGINES } from '../support/engines.ts'
import { checkHistories } from './throttle-histories.ts'

const HISTORIES = { sqlite: 40, postgres: 20 }

for (const engine of ENGINES) {
  test(`${HISTORIES[engine]} histories of attempts on ${engine} go as in the model`, () =>
    checkHistories(engine, HISTORIES[engine]))
}
