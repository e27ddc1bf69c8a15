// Mutation testing: changes one small thing after the other in the code below, and expects that a test fails.
// node launch.cjs test/mutation/main.ts [-- [--resume] [--workers=N] [FILE…]]
import { globSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { mutantsOf } from './mutants.ts'
import { openRecord } from './record.ts'
import { MUTATED, stagesOf } from './stages.ts'
import { createWorker } from './worker.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** Does not repeat what an earlier run, which may have been interrupted, has found to be killed. */
    resume: { type: 'boolean', default: false },
    workers: { type: 'string', default: '2' },
  },
})
const patterns = positionals.length > 0 ? positionals : MUTATED
const files = [...new Set(patterns.flatMap(pattern => globSync(pattern)))].filter(
  file => !/\.test\.ts$|generate/.test(file),
)
const mutants = mutantsOf(files)
const record = openRecord(mutants, values.resume)
const waiting = record.takeWaiting()
let isStopped = false
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    isStopped = true
  })
}
await Promise.all(
  Array.from({ length: Math.min(Number(values.workers), waiting.length) }, async () => {
    const worker = await createWorker()
    for (let mutant = waiting.shift(); mutant; mutant = waiting.shift()) {
      const verdict = await worker.judge(mutant, stagesOf(mutant.file))
      // The signal may have ended the tests too. `--resume` goes on with this mutant.
      if (isStopped) break
      record.add(mutant, verdict)
    }
    await worker.end()
  }),
)
process.exitCode = record.end() && !isStopped ? 0 : 1
