// Measures whether an attacker with accounts and known devices of its own keeps strangers from logging in: by
// logins, and by changes of its passwords, which are two hashes each.
import { makeKnownDevice, sendOnce } from '../attack.ts'
import { Connection, post, type Target } from '../connection.ts'
import { describeStatuses, type Findings, fixed, type Run } from '../findings.ts'
import { emailOf, loginRequest, PASSWORD } from '../seed.ts'
import { deploy } from '../service.ts'

const STRANGERS = 24
/** Each caller of the attacker has its own account, known device and address, all in one network. */
const CALLERS = 20
const OTHER_PASSWORD = 'seven green boats at noon'
const FLOODS = { logins: false, 'changes of the password': true }

export async function measureChanges({ isQuick, progress }: Run): Promise<Findings> {
  const everyMs = isQuick ? 700 : 2_000
  const durationMs = (STRANGERS + 1) * everyMs
  const found = []
  for (const [flood, isChanging] of Object.entries(FLOODS)) {
    progress(`a flood of ${flood}`)
    const deployment = await deploy('sqlite', CALLERS + STRANGERS)
    const { target } = await deployment.start()
    const devices: string[] = []
    for (let caller = 0; caller < CALLERS; caller++) {
      devices.push(await makeKnownDevice(target, emailOf(caller), addressOf(caller)))
    }
    const strangers = Array.from({ length: STRANGERS }, (_, index) =>
      loginRequest(emailOf(CALLERS + index)),
    )
    const endMs = performance.now() + durationMs
    const [got, ...attacked] = await Promise.all([
      sendOnce(target, strangers, { firstAddress: 0, delayMs: everyMs, everyMs }),
      ...devices.map((device, caller) => repeat(target, caller, device, isChanging, endMs)),
    ])
    await deployment.remove()
    found.push({ flood, strangers: got, attacker: attacked.flat() })
  }
  const succeeded = (statuses: number[]) => statuses.filter(status => status === 200).length
  return {
    title: 'logins during floods of logins and of changes, from one /24 with known devices',
    tables: [
      {
        title: `SQLite; answers to one login each of ${STRANGERS} strangers`,
        head: ['flood of', 'strangers', 'attacker’s successes /s', 'attacker’s answers'],
        rows: found.map(({ flood, strangers, attacker }) => [
          flood,
          describeStatuses(strangers.toSorted()),
          fixed((succeeded(attacker) * 1_000) / durationMs, 2),
          describeStatuses(attacker.toSorted()),
        ]),
      },
    ],
    targets: found.map(({ flood, strangers }) => ({
      name: `strangers during a flood of ${flood}`,
      figure: succeeded(strangers),
      ...{ digits: 0, unit: '', is: 'at least', limit: 22 },
    })),
  }
}

/** The statuses of all answers. The next request follows at once after every answer. */
async function repeat(
  target: Target,
  caller: number,
  device: string,
  isChanging: boolean,
  endMs: number,
): Promise<number[]> {
  const connection = new Connection(target, addressOf(caller))
  const email = emailOf(caller)
  const statuses: number[] = []
  let [current, next] = [PASSWORD, OTHER_PASSWORD]
  while (performance.now() < endMs) {
    const change = { email, currentPassword: current, newPassword: next }
    const request = isChanging
      ? post('/api/v1/auth/password', change, device)
      : loginRequest(email, current, device)
    const { status } = await connection.send(request)
    statuses.push(status)
    if (isChanging && status === 200) [current, next] = [next, current]
  }
  connection.close()
  return statuses
}

function addressOf(caller: number): string {
  return `127.2.0.${caller + 1}`
}
