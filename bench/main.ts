// npm run bench [-- section … --quick]: measures, and prints tables in Markdown to stdout.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isMet, type Section, type Target, toMarkdown } from './findings.ts'
import { describeMachine } from './machine.ts'
import { endRun, useRunFolder } from './processes.ts'
import { createProgress } from './progress.ts'
import { measureCeiling } from './sections/ceiling.ts'
import { measureDistance } from './sections/distance.ts'
import { measureImport } from './sections/import.ts'
import { measureKernel } from './sections/kernel.ts'
import { measureOverload } from './sections/overload.ts'
import { measurePeers } from './sections/peers.ts'
import { measureRefresh } from './sections/refresh.ts'
import { measureRefusals } from './sections/refusals.ts'
import { measureSimultaneous } from './sections/simultaneous.ts'
import { measureStarvation } from './sections/starvation.ts'

const SECTIONS: Record<string, Section> = {
  kernel: measureKernel,
  ceiling: measureCeiling,
  simultaneous: measureSimultaneous,
  overload: measureOverload,
  starvation: measureStarvation,
  refresh: measureRefresh,
  refusals: measureRefusals,
  distance: measureDistance,
  import: measureImport,
  peers: measurePeers,
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

process.stdout.write(`*${describeMachine()}${values.quick ? ', quick' : ''}*\n`)
useRunFolder()
if (names.includes('peers')) await installPeers()
const progress = createProgress()
const missed: Target[] = []
for (const [index, name] of names.entries()) {
  const findings = await SECTIONS[name]?.({
    isQuick: values.quick,
    progress: text => progress(`[${index + 1}/${names.length}] ${name}: ${text}`),
  })
  if (!findings) continue
  progress(`${name}: done\n`)
  // Printed after each section, so that results are not lost if a later section fails.
  process.stdout.write(`\n${toMarkdown(findings)}`)
  missed.push(...findings.targets.filter(target => !isMet(target)))
}
process.stderr.write(
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
