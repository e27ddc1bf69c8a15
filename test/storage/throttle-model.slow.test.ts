// More of the histories of test/storage/throttle-model.test.ts.
import { IS_FULL } from '../support/proof.ts'
import { proveHistories } from './throttle-histories.ts'

proveHistories(IS_FULL ? { sqlite: 700, postgres: 200 } : { sqlite: 120, postgres: 40 })
