// npm run bench [-- section … --quick]: measures, prints and writes docs/performance.md.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isMet, type Section, targetTable } from './findings.ts'
import { describeMachine, machineLine } from './machine.ts'
import { keep, type Results, savePlots, saveResults, toText } from './output.ts'
import { endRun, useRunFolder } from './processes.ts'
import { createProgress } from './progress.ts'
import { measureCapacity } from './sections/capacity.ts'
import { measureCeiling } from './sections/ceiling.ts'
import { measureChanges } from './sections/changes.ts'
import { measureFairness } from './sections/fairness.ts'
import { measureGrowth } from './sections/growth.ts'
import { measureImport } from './sections/import.ts'
import { measureOverhead } from './sections/overhead.ts'
import { measureOverload } from './sections/overload.ts'
import { measurePeers } from './sections/peers.ts'
import { measureProcesses } from './sections/processes.ts'
import { measureRefresh } from './sections/refresh.ts'
import { measureRefusals } from './sections/refusals.ts'
import { measureSimultaneous } from './sections/simultaneous.ts'
import { measureStarvation } from './sections/starvation.ts'

const SECTIONS: Record<string, Section> = {
  ceiling: measureCeiling,
  simultaneous: measureSimultaneous,
  overhead: measureOverhead,
  overload: measureOverload,
  starvation: measureStarvation,
  changes: measureChanges,
  fairness: measureFairness,
  refusals: measureRefusals,
  refresh: measureRefresh,
  processes: measureProcesses,
  peers: measurePeers,
  growth: measureGrowth,
  import: measureImport,
  capacity: measureCapacity,
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: 'boolean', default: false } },
})
const names = positionals.length > 0 ? positionals : Object.keys(SECTIONS)
const unknown = names.filter(name => !(name in SECTIONS))
if (unknown.length > 0) {
  const known = Object.keys(SECTIONS).join(' ')
  process.stderr.write(`Unknown section: ${unknown.join(', ')}. Sections: ${known}\n`)
  process.exit(2)
}

const isQuick = values.quick
// A quick run must not overwrite the results of a full run.
const folder = isQuick
  ? join(import.meta.dirname, 'trial')
  : join(import.meta.dirname, '..', 'docs')
const machine = describeMachine()
const results: Results = {}
process.stdout.write(`${machineLine(machine)}\n`)
useRunFolder()
if (names.includes('peers')) await installPeers()
await mkdir(folder, { recursive: true })

const progress = createProgress()
for (const [index, name] of names.entries()) {
  const findings = await SECTIONS[name]?.({
    isQuick,
    progress: text => progress(`[${index + 1}/${names.length}] ${name}: ${text}`),
  })
  if (!findings) continue
  const kept = keep(findings, machine, isQuick)
  results[name] = kept
  // Saved after each section, so that results are not lost if a later section fails.
  await savePlots(folder, findings, machine)
  await saveResults(folder, results)
  progress(`${name}: done\n`)
}

for (const [name, { title, tables, targets }] of Object.entries(results)) {
  const shown = targets.length > 0 ? [...tables, targetTable(targets)] : tables
  process.stdout.write(`\n=== ${name}: ${title}\n\n${shown.map(toText).join('\n')}`)
}
const missed = Object.values(results).flatMap(({ targets }) => targets.filter(t => !isMet(t)))
process.stdout.write(
  `\n${missed.length === 0 ? 'Every target was met.' : `${missed.length} targets were missed.`}\n`,
)
await endRun(missed.length === 0 ? 0 : 1)

/** Installs the alternatives that the service is compared with. The service does not need them. */
async function installPeers(): Promise<void> {
  if (existsSync(join(import.meta.dirname, 'node_modules'))) return
  process.stderr.write('installing the packages of the alternatives …\n')
  const npm = spawn('npm', ['ci', '--prefix', import.meta.dirname], { stdio: ['ignore', 2, 2] })
  const [code] = await once(npm, 'exit')
  if (code !== 0) throw new Error(`npm ci ended with ${code}`)
}
