import { proveFairness } from './fairness-proof.ts'
import { BEYOND, OFFICES, WITHSTOOD } from './fairness-scenarios.ts'

/** fairness.slow.test.ts plays all of them. */
const PLAYED = [
  'one address, 10 accounts with known devices',
  'the same; it changes its passwords',
  'none',
  '50 networks, no accounts',
]

proveFairness([...WITHSTOOD, ...OFFICES, ...BEYOND].filter(({ name }) => PLAYED.includes(name)))
