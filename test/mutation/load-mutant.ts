// Loaded first by each test process: where the tests import the mutated file, they get the mutant.
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'

const { MUTATED_FILE = '', MUTANT = '' } = process.env
const mutated = pathToFileURL(MUTATED_FILE).href

registerHooks({
  load(url, context, next) {
    if (url !== mutated) return next(url, context)
    const source = readFileSync(MUTANT, 'utf8')
    return { format: 'module-typescript', source, shortCircuit: true }
  },
})
