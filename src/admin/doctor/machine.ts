// Whether this machine hashes fast enough and knows what time it is.
import type { Config } from '../../config/config.ts'
import { createPasswords } from '../../login/passwords.ts'
import { type Finding, ok, problem, warning } from './finding.ts'

/** When this was written: a clock before it is wrong, and tokens would be born expired. */
const RELEASED = new Date('2026-11-01T00:00:00Z')
const SLOW_MS = 1_000

export async function checkMachine({ bcryptCost }: Config, now: Date): Promise<Finding[]> {
  return [await checkHashing(bcryptCost), checkClock(now)]
}

/** Judged by processor time: on a machine that is busy for a moment a lower cost is no remedy. */
async function checkHashing(bcryptCost: number): Promise<Finding> {
  const passwords = await createPasswords(bcryptCost)
  const [start, cpuStart] = [performance.now(), process.cpuUsage()]
  await passwords.verify('', null)
  const { user, system } = process.cpuUsage(cpuStart)
  const cpuMs = Math.round((user + system) / 1000)
  const ms = Math.round(performance.now() - start)
  const detail = `bcrypt cost ${bcryptCost} takes ${cpuMs} ms of processor time, ${ms} ms in all`
  return cpuMs < SLOW_MS
    ? ok('hashing', detail)
    : warning('hashing', `${detail}: a login cannot stay under a second; lower BCRYPT_COST`)
}

function checkClock(now: Date): Finding {
  return now > RELEASED
    ? ok('clock', now.toISOString())
    : problem('clock', `${now.toISOString()} is in the past: set it, tokens depend on it`)
}
