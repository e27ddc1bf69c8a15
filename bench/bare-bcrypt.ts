// A process that only compares passwords: the upper limit of this machine.
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import bcrypt from 'bcrypt'
import { type StartedProcess, start } from './processes.ts'
import { sum } from './statistics.ts'

type Job = { cost: number; inFlight: number; durationMs: number }
export type Comparisons = { perSecond: number; cpuMsEach: number; msEach: number[] }

export type BareBcrypt = {
  /** Compares for this long, as many passwords at a time as there are cores. */
  saturate: (cost: number, durationMs: number) => Promise<Comparisons>
  /** Compares one password at a time, at least one in all. */
  single: (cost: number, durationMs?: number) => Promise<Comparisons>
  stop: StartedProcess['stop']
}

const PASSWORD = 'correct horse battery staple'
const cores = availableParallelism()

export function startBareBcrypt(): BareBcrypt {
  const bare = start(
    [process.execPath, fileURLToPath(import.meta.url)],
    // The same number of threads as in the service.
    { UV_THREADPOOL_SIZE: String(cores + 4) },
    { hasChannel: true },
  )
  const { child } = bare
  const ask = (job: Job) =>
    new Promise<Comparisons>((resolve, reject) => {
      child.once('exit', reject)
      child.once('message', (comparisons: Comparisons) => {
        child.off('exit', reject)
        resolve(comparisons)
      })
      child.send(job)
    })
  return {
    saturate: (cost, durationMs) => ask({ cost, inFlight: cores, durationMs }),
    single: (cost, durationMs = 0) => ask({ cost, inFlight: 1, durationMs }),
    stop: bare.stop,
  }
}

async function compare({ inFlight, durationMs }: Job, hash: string): Promise<Comparisons> {
  const cpuBefore = process.cpuUsage()
  const endMs = performance.now() + durationMs
  const lanes = await Promise.all(
    Array.from({ length: inFlight }, async () => {
      const msEach: number[] = []
      do {
        const startMs = performance.now()
        await bcrypt.compare(PASSWORD, hash)
        msEach.push(performance.now() - startMs)
      } while (performance.now() < endMs)
      return msEach
    }),
  )
  const { user, system } = process.cpuUsage(cpuBefore)
  const msEach = lanes.flat()
  return {
    perSecond: sum(lanes.map(lane => (lane.length * 1_000) / sum(lane))),
    cpuMsEach: (user + system) / 1_000 / msEach.length,
    msEach,
  }
}

if (import.meta.main) {
  const hashes = new Map<number, string>()
  process.on('message', async (job: Job) => {
    const hash = hashes.get(job.cost) ?? (await bcrypt.hash(PASSWORD, job.cost))
    hashes.set(job.cost, hash)
    process.send?.(await compare(job, hash))
  })
}
