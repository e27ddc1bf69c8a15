// The throttle of each engine does what its model does. `npm run test:slow` runs more histories.
import { proveHistories } from './throttle-histories.ts'

proveHistories({ sqlite: 40, postgres: 20 })
