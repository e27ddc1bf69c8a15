// Runs commands one after the other in one process. Each command evaluates main.ts again, with its own
// arguments, environment, folder and streams; the libraries stay loaded. Loading them takes most of the
// half second of CPU time that a command costs in a process of its own.
import { PassThrough } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'

export type Ended = { code: number | null; stdout: string; stderr: string }

export type HostedCommand = {
  args: string[]
  input: Buffer
  env: Record<string, string>
  folder: string
}

const MAIN = new URL('../../src/main.ts', import.meta.url).href
const USUAL_UMASK = 0o022
/** The most time that a command's connections and timers may take to end after it. */
const ENDS_WITHIN_MS = 20_000

let commands = 0

process.on('message', async (command: HostedCommand) => {
  const ended = await run(command)
  process.send?.(ended)
})

async function run({ args, input, env, folder }: HostedCommand): Promise<Ended> {
  const before = process.getActiveResourcesInfo().length
  process.chdir(folder)
  process.umask(USUAL_UMASK)
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, env)
  process.argv.splice(2, process.argv.length, ...args)
  process.exitCode = undefined
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
  for (const [name, value] of Object.entries({ stdin, stdout, stderr })) {
    Object.defineProperty(process, name, { value, configurable: true })
  }
  stdin.end(input)
  const outputs = Promise.all([buffer(stdout), buffer(stderr)])
  try {
    await import(`${MAIN}?command=${++commands}`)
    await resourcesAtMost(before)
  } catch (error) {
    stderr.write(error instanceof Error ? error.stack : String(error))
    process.exitCode = 1
  }
  const code = Number(process.exitCode ?? 0)
  process.exitCode = undefined
  stdout.end()
  stderr.end()
  const [printed, said] = await outputs
  return { code, stdout: printed.toString(), stderr: said.toString() }
}

/** A process ends when nothing is left to wait for, such as a connection that was not closed. */
async function resourcesAtMost(count: number): Promise<void> {
  const deadline = performance.now() + ENDS_WITHIN_MS
  let waitingFor = process.getActiveResourcesInfo()
  while (waitingFor.length > count) {
    if (performance.now() > deadline) throw new Error(`it does not end: ${waitingFor.join(', ')}`)
    await setTimeout(1)
    waitingFor = process.getActiveResourcesInfo()
  }
}
