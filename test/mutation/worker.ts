// Runs mutants one after the other, with a PostgreSQL server of its own.
import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { query } from '../support/engines.ts'
import { prepareTests, TEST_FLAGS } from '../support/prepare.ts'
import type { Ended } from '../support/reporter.ts'
import type { Mutant } from './mutants.ts'
import type { Stage } from './stages.ts'

/** `timeout`: the tests did not end, which a person would notice too. */
export type Verdict = 'killed' | 'timeout' | 'survived'

/** A test process may take this many times as long as without a mutant … */
const SLOWER = 4
/** … and this much longer, because the machine may have other work. */
const LONGER_MS = 15_000
/** Without a mutant. */
const PATIENCE_MS = 10 * 60_000

export async function createWorker() {
  const { env, end } = await prepareTests()
  const { TEST_FOLDER: memory = '', TEST_DATABASE_URL: server = '' } = env
  const limits = new Map<string, number>()

  /** Stops at the first failure. What the killed process leaves behind is removed. */
  async function runStage({ engine, files }: Stage, mutant: Mutant | null, limitMs: number) {
    await dropDatabases()
    const folder = await mkdtemp(join(memory, 'login-mutant-'))
    const source = join(folder, 'mutant.ts')
    if (mutant) await writeFile(source, mutant.source)
    const loader = ['--import', join(import.meta.dirname, 'load-mutant.ts')]
    const child = spawn(process.execPath, [...(mutant ? loader : []), ...TEST_FLAGS, ...files], {
      env: {
        ...env,
        ...{ TEST_ENGINE: engine, TEST_FOLDER: folder },
        ...(mutant && { MUTATED_FILE: resolve(mutant.file), MUTANT: source }),
      },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    let isLate = false
    let hasReported = false
    let passed = 0
    let failure = ''
    const timer = setTimeout(() => {
      isLate = true
      child.kill('SIGKILL')
    }, limitMs)
    child.on('message', (message: Ended | 'done') => {
      if (message === 'done') hasReported = true
      else if (message.failure === null) passed++
      else {
        failure = `${message.name}\n${message.failure}`
        child.kill('SIGKILL')
      }
    })
    await new Promise(ended => child.once('exit', ended))
    clearTimeout(timer)
    await rm(folder, { recursive: true, force: true })
    const hasPassed = hasReported && passed > 0 && failure === ''
    const verdict: Verdict = isLate ? 'timeout' : hasPassed ? 'survived' : 'killed'
    return { verdict, failure }
  }

  async function dropDatabases(): Promise<void> {
    const rows = await query(
      server,
      `select datname from pg_database where datname like 'login\\_test\\_%'
        and datname <> '${env.TEST_TEMPLATE_DATABASE}'`,
    )
    for (const { datname } of rows) await query(server, `drop database ${datname} with (force)`)
  }

  /** From a run without a mutant, in which no test may fail. */
  async function limitOf(stage: Stage): Promise<number> {
    const name = JSON.stringify(stage)
    if (!limits.has(name)) {
      const startMs = performance.now()
      const { verdict, failure } = await runStage(stage, null, PATIENCE_MS)
      if (verdict !== 'survived')
        throw new Error(`without a mutant, ${name}: ${failure || verdict}`)
      limits.set(name, (performance.now() - startMs) * SLOWER + LONGER_MS)
    }
    return limits.get(name) ?? PATIENCE_MS
  }

  return {
    async judge(mutant: Mutant, stages: Stage[]): Promise<Verdict> {
      for (const stage of stages) {
        const { verdict } = await runStage(stage, mutant, await limitOf(stage))
        if (verdict !== 'survived') return verdict
      }
      return 'survived'
    },
    end,
  }
}
