// Prints the time from start to ready, and the resident memory after the start and after 1,000 logins.
import { demandOnly, runClosedLoop } from './closed-loop.ts'
import { endRun, useRunFolder } from './processes.ts'
import { CHEAP_COST, rightLogins } from './seed.ts'
import { CHEAP, deploy } from './service.ts'
import { median } from './statistics.ts'

const STARTS = 5
const LOGINS = 1_000
const CONNECTIONS = 8
const LOGINS_TIMEOUT_MS = 60_000

useRunFolder()
const deployment = await deploy('sqlite', 1)
await deployment.start().then(({ stop }) => stop()) // creates the certificate and the keys
const startsMs: number[] = []
for (let i = 0; i < STARTS; i++) {
  const service = await deployment.start()
  startsMs.push(service.readyMs)
  await service.stop()
}
print(`start to ready, cost 12   ${median(startsMs).toFixed(0)} ms (median of ${STARTS})`)

// A low cost, because memory does not depend on it and 1,000 logins at cost 12 would take minutes.
const service = await deployment.start(CHEAP)
print(`resident after start      ${(await service.residentMiB()).toFixed(0)} MiB`)
const lanes = await runClosedLoop({
  target: service.target,
  connections: CONNECTIONS,
  durationMs: LOGINS_TIMEOUT_MS,
  maxRequests: LOGINS,
  request: rightLogins(1, CHEAP_COST),
})
demandOnly(lanes, 200)
print(
  `resident after ${lanes.flat().length} logins ${(await service.residentMiB()).toFixed(0)} MiB`,
)
await endRun(0)

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
