// Checks that this machine hashes fast enough and that its clock is plausible.
import type { Config } from '../../config/config.ts'
import { createPasswords } from '../../login/passwords.ts'
import { type Finding, ok, problem, warning } from './finding.ts'

/** An earlier time on the clock is wrong, and tokens would be expired when they are issued. */
const RELEASED = new Date('2026-11-01T00:00:00Z')
const SLOW_MS = 1_000

export async function checkMachine({ bcryptCost }: Config, now: Date): Promise<Finding[]> {
  return [await checkHashing(bcryptCost), checkClock(now)]
}

/** Judges by processor time, because the elapsed time also grows while the machine is busy. */
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
    : warning('hashing', `${detail}: a login takes longer than a second; lower BCRYPT_COST`)
}

function checkClock(now: Date): Finding {
  return now > RELEASED
    ? ok('clock', now.toISOString())
    : problem(
        'clock',
        `${now.toISOString()} is in the past: set the clock, because tokens depend on it`,
      )
}
