import { proveFairness } from './fairness-proof.ts'
import { BEYOND, OFFICES, WITHSTOOD } from './fairness-scenarios.ts'

proveFairness([...WITHSTOOD, ...OFFICES, ...BEYOND])
