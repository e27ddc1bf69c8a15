import { OFFICES, proveFairness, WITHSTOOD } from './fairness-scenarios.ts'

/** fairness.slow.test.ts plays all of them. */
const PLAYED = [
  'one address, 10 accounts with known devices',
  'the same; it changes its passwords',
  'none',
]

proveFairness([...WITHSTOOD, ...OFFICES].filter(({ name }) => PLAYED.includes(name)))
