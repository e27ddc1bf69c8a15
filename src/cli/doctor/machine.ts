// Checks that this machine hashes fast enough and that its clock is plausible.
import { availableParallelism } from 'node:os'
import { openHasher } from '../../bcrypt/open-hasher.ts'
import type { Config } from '../../config/config.ts'
import { capacityOf, MOST_COUNTED } from '../../hashing/capacity.ts'
import { type Finding, ok, problem, warning } from '../../system/finding.ts'

/** An earlier time on the clock is wrong, and tokens would be expired when they are issued. */
const RELEASED = new Date('2026-11-01T00:00:00Z')

export async function checkMachine(config: Config, now: Date): Promise<Finding[]> {
  return [...(await checkHashing(config)), checkClock(now)]
}

async function checkHashing(config: Config): Promise<Finding[]> {
  const { passwordEngine, bcryptCost, loginTimeMs } = config
  const findings: Finding[] = []
  const hasher = await openHasher(
    passwordEngine,
    availableParallelism(),
    text => findings.push(warning('hashing', text)),
    () => {},
  )
  const { hashes, logins } = capacityOf(hasher, { cost: bcryptCost, loginTimeMs })
  const aloneMs = 2 ** bcryptCost * (hasher.roundMs(0)[0] ?? 0)
  await hasher.close()
  const count = logins >= MOST_COUNTED ? `${MOST_COUNTED} or more` : String(logins)
  const detail = `bcrypt cost ${bcryptCost} takes ${aloneMs.toFixed()} ms; ${count} logins at the same moment are answered within ${loginTimeMs} ms`
  const advice = 'lower BCRYPT_COST, raise LOGIN_TIME_MS or use more cores'
  if (logins > hashes) return [...findings, ok('hashing', detail)]
  return [...findings, warning('hashing', `${detail}, and none can wait for its turn: ${advice}`)]
}

function checkClock(now: Date): Finding {
  const time = now.toISOString()
  if (now > RELEASED) return ok('clock', time)
  return problem('clock', `${time} is in the past: set the clock, because tokens depend on it`)
}
