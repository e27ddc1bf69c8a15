// Prints the size of what production installs, the time from start to ready, and for both password engines the resident memory after the start and
// after 1,000 logins.
import { PASSWORD_ENGINES } from '../src/config/variables.ts'
import { demandOnly, runClosedLoop } from './closed-loop.ts'
import { endRun, useRunFolder } from './processes.ts'
import { measureProductionTree } from './production-tree.ts'
import { CHEAP_COST, rightLogins } from './seed.ts'
import { CHEAP, deploy } from './service.ts'
import { median } from './statistics.ts'

const STARTS = 5
const LOGINS = 1_000
const CONNECTIONS = 8
const LOGINS_TIMEOUT_MS = 60_000

const tree = await measureProductionTree()
print(
  `production tree           ${tree.packages} packages, ${tree.mib.toFixed(1)} MiB, of which Node.js itself ${tree.nodeMib.toFixed(1)} MiB`,
)

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

for (const engine of PASSWORD_ENGINES) {
  // A low cost, because memory does not depend on it and 1,000 logins at cost 12 would take minutes.
  const service = await deployment.start({ ...CHEAP, PASSWORD_ENGINE: engine })
  const afterStart = await service.residentMiB()
  const lanes = await runClosedLoop({
    target: service.target,
    connections: CONNECTIONS,
    durationMs: LOGINS_TIMEOUT_MS,
    maxRequests: LOGINS,
    request: rightLogins(1, CHEAP_COST),
  })
  demandOnly(lanes, 200)
  const afterLogins = await service.residentMiB()
  print(
    `resident, ${engine.padEnd(6)}          ${afterStart.toFixed()} MiB after the start, ${afterLogins.toFixed()} MiB after ${LOGINS} logins`,
  )
  await service.stop()
}
await endRun(0)

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
