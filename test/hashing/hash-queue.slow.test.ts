import { casesOf } from '../support/proof.ts'
import { proveAdmission } from './admission-proof.ts'
import { OFFICES, proveFairness, WITHSTOOD } from './fairness-scenarios.ts'

proveAdmission(casesOf(10_000))
proveFairness([...WITHSTOOD, ...OFFICES])
