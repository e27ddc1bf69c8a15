// npm run bench:passwords: what the rules for a new password cost in time and memory.
import { findPasswordFlaw } from '../src/login/password-rules.ts'
import { describeMachine, machineLine } from './machine.ts'
import { median } from './statistics.ts'

const CHECKS = 1_000
const CONTEXT = {
  minLength: 8,
  email: 'ann@example.org',
  name: 'Ann Lee',
  brandName: 'Login Service',
}
const collectGarbage = globalThis.gc
if (!collectGarbage) throw new Error('run it as "npm run bench:passwords", which sets --expose-gc')

const print = (line: string) => process.stdout.write(`${line}\n`)
const usedKiB = () => {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / 1_024
}

async function timeMs(password: string): Promise<number> {
  const startMs = performance.now()
  await findPasswordFlaw(password, CONTEXT)
  return performance.now() - startMs
}

print(machineLine(describeMachine()))
const before = usedKiB()
print(`first check, which reads the list: ${(await timeMs('correct horse battery')).toFixed(2)} ms`)
print(`memory of the list: ${(usedKiB() - before).toFixed(0)} KiB`)
for (const password of ['sunshine', 'correct horse battery', 'q'.repeat(72)]) {
  const times: number[] = []
  for (let i = 0; i < CHECKS; i++) times.push(await timeMs(password))
  const longest = Math.max(...times).toFixed(3)
  print(`"${password.slice(0, 24)}": median ${median(times).toFixed(3)} ms, longest ${longest} ms`)
}
