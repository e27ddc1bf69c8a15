// A process that only compares passwords, as many at a time as there are cores: the upper limit of this machine.
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import bcrypt from 'bcrypt'
import { type StartedProcess, start } from './processes.ts'
import { sum } from './statistics.ts'

type Job = { cost: number; durationMs: number }

export type BareBcrypt = {
  /** Compares for this long; returns comparisons per second. */
  saturate: (cost: number, durationMs: number) => Promise<number>
  stop: StartedProcess['stop']
}

const PASSWORD = 'correct horse battery staple'
const cores = availableParallelism()

export function startBareBcrypt(): BareBcrypt {
  const { child, stop } = start(
    [process.execPath, fileURLToPath(import.meta.url)],
    // The same number of threads as in the service.
    { UV_THREADPOOL_SIZE: String(cores + 4) },
    { hasChannel: true },
  )
  return {
    saturate: (cost, durationMs) =>
      new Promise((resolve, reject) => {
        child.once('exit', reject)
        child.once('message', (perSecond: number) => {
          child.off('exit', reject)
          resolve(perSecond)
        })
        child.send({ cost, durationMs } satisfies Job)
      }),
    stop,
  }
}

async function compare(hash: string, durationMs: number): Promise<number> {
  const endMs = performance.now() + durationMs
  const rates = await Promise.all(
    Array.from({ length: cores }, async () => {
      const startMs = performance.now()
      let count = 0
      while (performance.now() < endMs) {
        await bcrypt.compare(PASSWORD, hash)
        count++
      }
      return (count * 1_000) / (performance.now() - startMs)
    }),
  )
  return sum(rates)
}

if (import.meta.main) {
  process.on('message', async ({ cost, durationMs }: Job) => {
    process.send?.(await compare(await bcrypt.hash(PASSWORD, cost), durationMs))
  })
}
