// Prints how long the service takes from its start to ready, and what it holds in memory after 1,000 logins.
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'

const STARTS = 5
const LOGINS = 1_000
const CONNECTIONS = 8

const root = resolve(import.meta.dirname, '..')
const dataDir = await mkdtemp(join(tmpdir(), 'login-footprint-'))
const env = {
  ...process.env,
  DATA_DIR: dataDir,
  PORT: '18443',
  OPS_PORT: '19443',
  // Memory does not depend on the cost; a thousand logins at cost 12 would take minutes.
  NODE_ENV: 'test',
}
const main = join(root, 'src/main.ts')
/** As "npm start" does it; npm itself is not what is measured. */
const guard = ['--max-semi-space-size=4', '-r', join(root, 'version-guard.cjs')]

try {
  await start({}).then(stop) // makes certificate, keys and tables once
  const startsMs: number[] = []
  for (let i = 0; i < STARTS; i++) {
    const service = await start({})
    startsMs.push(service.readyMs)
    await stop(service)
  }
  const median = startsMs.toSorted((a, b) => a - b)[Math.floor(STARTS / 2)] ?? Number.NaN
  print(`start to ready, cost 12   ${median.toFixed(0)} ms (median of ${STARTS})`)

  await addUser()
  const service = await start({ BCRYPT_COST: '4' })
  const before = await residentMiB(service.process.pid)
  await logIn()
  print(`resident after start      ${before.toFixed(0)} MiB`)
  print(
    `resident after ${LOGINS} logins ${(await residentMiB(service.process.pid)).toFixed(0)} MiB`,
  )
  await stop(service)
} finally {
  await rm(dataDir, { recursive: true })
}

async function start(more: Record<string, string>) {
  const began = performance.now()
  const child = spawn(process.execPath, [...guard, main, 'serve'], {
    cwd: root,
    env: { ...env, ...more },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.includes('service.started')) break
  }
  child.stdout.resume()
  const ready = await fetch('http://127.0.0.1:19443/readyz')
  if (ready.status !== 200) throw new Error(`/readyz answered ${ready.status}`)
  return { process: child, readyMs: performance.now() - began }
}

async function stop({ process: child }: Awaited<ReturnType<typeof start>>): Promise<void> {
  child.kill('SIGTERM')
  if (child.exitCode === null) await new Promise(resolve => child.once('exit', resolve))
}

async function addUser(): Promise<void> {
  const adding = spawn(
    process.execPath,
    [main, 'users', 'add', 'kate@example.com', '--name', 'Kate', '--password-stdin'],
    { cwd: root, env: { ...env, BCRYPT_COST: '4' }, stdio: ['pipe', 'ignore', 'ignore'] },
  )
  adding.stdin.end('correct horse')
  const code = await new Promise(resolve => adding.once('exit', resolve))
  if (code !== 0) throw new Error(`users add ended with ${code}`)
}

async function logIn(): Promise<void> {
  const ca = await readFile(join(dataDir, 'development-cert.pem'))
  const agent = new Agent({ ca, keepAlive: true, maxSockets: CONNECTIONS })
  const body = JSON.stringify({ email: 'kate@example.com', password: 'correct horse' })
  const one = () =>
    new Promise<void>((resolve, reject) => {
      const outgoing = request('https://127.0.0.1:18443/api/v1/auth/login', {
        method: 'POST',
        agent,
        headers: { 'Content-Type': 'application/json' },
      })
      outgoing.once('response', answer => {
        answer
          .resume()
          .once('end', () =>
            answer.statusCode === 200
              ? resolve()
              : reject(new Error(`status ${answer.statusCode}`)),
          )
      })
      outgoing.once('error', reject).end(body)
    })
  let left = LOGINS
  const worker = async () => {
    while (left-- > 0) await one()
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, worker))
  agent.destroy()
}

async function residentMiB(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
