// An attacker that sends its next login at once after every answer, and the logins of other users meanwhile.
import { setTimeout as sleep } from 'node:timers/promises'
import { loopbackAddress } from './clients.ts'
import { Connection, type Target } from './connection.ts'
import { loginRequest, PASSWORD } from './seed.ts'

export type Attack = {
  /** The request with this number, counted over all callers. */
  request: (index: number) => Buffer
  /** How many addresses it has, and the first of them. */
  addresses: number
  firstAddress: number
}

const CALLERS = 20
const BROWSER = 'Sec-Fetch-Site: same-origin\r\n'

/** The statuses of all answers. Each caller uses its addresses in turn, on one kept connection each. */
export async function attack(
  target: Target,
  { request, addresses, firstAddress }: Attack,
  durationMs: number,
): Promise<number[]> {
  const endMs = performance.now() + durationMs
  const statuses: number[] = []
  let sent = 0
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      const connections = Array.from({ length: Math.ceil(addresses / CALLERS) }, (_, turn) => {
        const index = (turn * CALLERS + caller) % addresses
        return new Connection(target, loopbackAddress(firstAddress + index))
      })
      for (let turn = 0; performance.now() < endMs; turn++) {
        const answer = await connections[turn % connections.length]?.send(request(sent++))
        statuses.push(answer?.status ?? 0)
      }
      for (const connection of connections) connection.close()
    }),
  )
  return statuses
}

/** Sends each request once, at even intervals, on its own connection from its own address. */
export async function sendOnce(
  target: Target,
  requests: Buffer[],
  { firstAddress, delayMs, everyMs }: { firstAddress: number; delayMs: number; everyMs: number },
): Promise<number[]> {
  return Promise.all(
    requests.map(async (request, index) => {
      await sleep(delayMs + index * everyMs)
      const connection = new Connection(target, loopbackAddress(firstAddress + index))
      const { status } = await connection.send(request)
      connection.close()
      return status
    }),
  )
}

/** Logs in from a browser; the result is the headers that this known device sends later. */
export async function makeKnownDevice(
  target: Target,
  email: string,
  address: string,
): Promise<string> {
  const connection = new Connection(target, address)
  const { status, head } = await connection.send(loginRequest(email, PASSWORD, BROWSER))
  connection.close()
  const [cookie] = /__Host-device=[^;]+/.exec(head.toString('latin1')) ?? []
  if (!cookie) throw new Error(`a browser's first login was answered ${status} without its cookie`)
  return `${BROWSER}Cookie: ${cookie}\r\n`
}
