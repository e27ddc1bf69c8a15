import { readFileSync, readdirSync } from 'node:fs'
import { runClosedLoop, steadyRate, latenciesMs, IMPATIENT_MS } from './closed-loop.ts'
import { endRun, useRunFolder } from './processes.ts'
import { rightLogins } from './seed.ts'
import { deploy } from './service.ts'
useRunFolder()
const engine = (process.argv[2] ?? 'sqlite') as 'sqlite'
const conns = (process.argv[3] ?? '16').split(',').map(Number)
const d = await deploy(engine, 1000)
const s = await d.start()
const request = rightLogins(1000)
const threads = () => Object.fromEntries(readdirSync(`/proc/${s.pid}/task`).map(t => { const st = readFileSync(`/proc/${s.pid}/task/${t}/stat`, 'utf8'); const f = st.slice(st.lastIndexOf(')') + 2).split(' '); return [t, Number(f[11]) + Number(f[12])] }))
for (const connections of conns) {
  const before = threads(); const cb = process.cpuUsage(); const t = performance.now()
  const lanes = await runClosedLoop({ target: s.target, connections, durationMs: 10_000, request, retryWithinMs: IMPATIENT_MS })
  const after = threads(); const cu = process.cpuUsage(cb); const ms = performance.now() - t
  const counts: Record<string, number> = {}
  for (const x of lanes.flat()) counts[x.status] = (counts[x.status] ?? 0) + 1
  const lat = latenciesMs(lanes, 200).sort((a, b) => a - b)
  console.log(connections, 'rate', steadyRate(lanes, 200).toFixed(2), counts, 'p50', lat[lat.length >> 1]?.toFixed(), 'max', lat.at(-1)?.toFixed(), 'cpu% by thread', Object.entries(after).map(([k, v]) => (v - (before[k] ?? 0)) * 10 / ms * 100).filter(x => x > 0.5).map(x => x.toFixed(1)).join(' '), 'generator', ((cu.user + cu.system) / 1000 / ms * 100).toFixed(1))
}
await d.remove()
await endRun(0)
