import { OFFICES, proveFairness, WITHSTOOD } from './fairness-scenarios.ts'

proveFairness([...WITHSTOOD, ...OFFICES])
