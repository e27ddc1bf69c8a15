// hash-queue.slow.test.ts plays more histories, and all scenarios.
import { proveAdmission } from './admission-proof.ts'
import { OFFICES, proveFairness, WITHSTOOD } from './fairness-scenarios.ts'

const PLAYED = [
  'one address, 10 accounts with known devices',
  'the same; it changes its passwords',
  'none',
]

proveAdmission(500)
proveFairness([...WITHSTOOD, ...OFFICES].filter(({ name }) => PLAYED.includes(name)))
