// Processes and temporary files of a run. They are removed when the run ends, also by a fault or signal.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The unit of processor time in /proc, on every Linux architecture that Node supports. */
const CLOCK_TICK_MS = 10
const STOP_TIMEOUT_MS = 15_000

export type StartedProcess = {
  pid: number
  child: ChildProcess
  /** User and system time on all cores so far. */
  cpuMs: () => Promise<number>
  stop: () => Promise<void>
}

const running = new Set<ChildProcess>()
const endings: (() => Promise<void>)[] = []
let folder: string | null = null
let isEnding = false

/** The folder for all temporary files of this run, also for those of libraries. */
export function useRunFolder(): string {
  if (folder) return folder
  folder = mkdtempSync(join(tmpdir(), 'login-bench-'))
  // PostgreSQL runs as another user than root and must be able to enter the folder.
  chmodSync(folder, 0o755)
  process.env.TMPDIR = folder
  process.once('exit', () => {
    for (const child of running) child.kill('SIGKILL')
    if (folder) rmSync(folder, { recursive: true, force: true })
  })
  process.on('uncaughtException', error => {
    // While the run ends, pending requests fail because their processes were killed: not worth reporting.
    if (!isEnding) process.stderr.write(`\n${error.stack}\n`)
    endRun(1)
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => endRun(130))
  }
  return folder
}

/** Registers work to do when the run ends, also after a fault or signal. */
export function atEnd(ending: () => Promise<void>): void {
  endings.push(ending)
}

export async function endRun(exitCode: number): Promise<void> {
  if (isEnding) return
  isEnding = true
  for (const child of running) child.kill('SIGKILL')
  await Promise.allSettled(endings.map(ending => ending()))
  process.exit(exitCode)
}

/** The process gets only `env` and no local `.env` file. Its output goes to a file. */
export function start(
  command: string[],
  env: Record<string, string>,
  { hasChannel = false } = {},
): StartedProcess {
  const [file = '', ...args] = command
  const cwd = useRunFolder()
  const logFile = join(cwd, `output-${crypto.randomUUID()}`)
  const output = openSync(logFile, 'w')
  const child = spawn(file, args, {
    cwd,
    env: { PATH: process.env.PATH ?? '', TMPDIR: cwd, ...env },
    stdio: ['ignore', output, output, ...(hasChannel ? (['ipc'] as const) : [])],
  })
  closeSync(output)
  running.add(child)
  let isStopping = false
  child.once('exit', code => {
    running.delete(child)
    if (isStopping || code === null) return
    process.stderr.write(`\n${readFileSync(logFile, 'utf8').slice(-2_000)}\n`)
  })
  const pid = child.pid ?? 0
  return {
    pid,
    child,
    cpuMs: () => cpuMsOf(pid),
    async stop() {
      isStopping = true
      if (!running.has(child)) return
      const exit = once(child, 'exit')
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
      await exit
      clearTimeout(timer)
      rmSync(logFile, { force: true })
    },
  }
}

/** Returns a function that tells which share of one core this process has used since. */
export function startCpuShare(): () => number {
  const cpuBefore = process.cpuUsage()
  const startMs = performance.now()
  return () => {
    const { user, system } = process.cpuUsage(cpuBefore)
    return (user + system) / 1_000 / (performance.now() - startMs)
  }
}

async function cpuMsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  // The second field is the name in brackets, which may have spaces. Fields 14 and 15 are the times.
  const [, , , , , , , , , , , user, system] = stat
    .slice(stat.lastIndexOf(')') + 1)
    .split(/\s+/)
    .slice(1)
  return (Number(user) + Number(system)) * CLOCK_TICK_MS
}
