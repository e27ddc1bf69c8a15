// npm run bench:feed [-- --logouts 300]: how long after a logout three verifiers refuse the token, with one instance and
// with three on PostgreSQL, while 20,000 sessions end in an hour; what the feed and a check cost; what a crash loses.
import { setTimeout as sleep } from 'node:timers/promises'
import { setDefaultCACertificates } from 'node:tls'
import { parseArgs } from 'node:util'
import { createVerifier } from '../examples/verifier.js'
import { fillSessions } from '../test/many-sessions.ts'
import { createClient } from '../test/service.ts'
import { describeMachine, machineLine } from './machine.ts'
import { endRun, useRunFolder } from './processes.ts'
import { CHEAP_COST, emailOf, PASSWORD } from './seed.ts'
import { CHEAP, deploy, type Service } from './service.ts'
import { quantile } from './statistics.ts'

const PER_HOUR = 20_000
const VERIFIERS = 3
const CHECKS = 1_000_000
const FEED = '/.well-known/ended-sessions'

const { values } = parseArgs({ options: { logouts: { type: 'string', default: '300' } } })
const logouts = Number(values.logouts)
const print = (line: string) => process.stdout.write(`${line}\n`)
const addressOf = ({ target }: Service) => `https://localhost:${target.port}`

useRunFolder()
print(machineLine(describeMachine()))
const sizes = { answers: 0, bytes: 0 }
countBytes()
for (const instances of [1, 3]) await measure(instances)
await endRun(0)

async function measure(instances: number): Promise<void> {
  const deployment = await deploy('postgres', 1)
  const services: Service[] = []
  for (let i = 0; i < instances; i++) {
    services.push(await deployment.start({ ...CHEAP, MAX_SESSIONS_PER_USER: '1000' }))
  }
  setDefaultCACertificates(services.map(({ target }) => String(target.certificate)))
  const clients = await Promise.all(
    services.map(service => createClient(addressOf(service), deployment.dataDir)),
  )
  const [user] = await deployment.database.rows('select id from users limit 1')
  for (let minute = 0; minute < 60; minute++) {
    const endedAt = new Date(Date.now() - minute * 60_000)
    const filling = { tokensEach: 0, endedAt }
    await fillSessions(deployment.database, String(user?.id), PER_HOUR / 60, new Date(), filling)
  }
  const sessions = []
  for (let i = 0; i < logouts; i++) {
    const body = { email: emailOf(0, CHEAP_COST), password: PASSWORD }
    const answer = await clients[i % instances]?.call({ body })
    if (answer?.status !== 200) throw new Error(answer?.text)
    const { accessToken, refreshToken } = answer.json.data
    const claims = Buffer.from(accessToken.split('.')[1] ?? '', 'base64url').toString()
    sessions.push({ refreshToken, sid: JSON.parse(claims).sid })
  }

  // Each verifier asks an instance of its own, if there are enough, and at moments of its own.
  const verifiers: ReturnType<typeof createVerifier>[] = []
  for (let i = 0; i < VERIFIERS; i++) {
    const [service = services[0]] = services.slice(i % instances)
    if (service) verifiers.push(createVerifier(addressOf(service)))
    await sleep(700)
  }
  await sleep(2_000)
  Object.assign(sizes, { answers: 0, bytes: 0 })
  const delaysMs: number[] = []
  const waiting = sessions.map(async ({ refreshToken, sid }, i) => {
    await sleep((i * 3_600_000) / PER_HOUR)
    const client = clients[i % instances]
    await client?.call({ path: '/api/v1/auth/logout', body: { refreshToken } })
    const endedMs = performance.now()
    for (const { isEnded } of verifiers) {
      while (!isEnded(sid)) await sleep(5)
      delaysMs.push(performance.now() - endedMs)
    }
  })
  await Promise.all(waiting)
  const seconds = [0.5, 0.99, 1].map(share => (quantile(delaysMs, share) / 1000).toFixed(2))
  print(
    `\n${instances} instance(s), ${VERIFIERS} verifiers, ${logouts} logouts, ${PER_HOUR} per hour`,
  )
  print(`from logout to refusal: median ${seconds[0]} s, p99 ${seconds[1]} s, most ${seconds[2]} s`)
  print(`an answer every 2 s: ${Math.round(sizes.bytes / sizes.answers)} bytes on average`)

  const all = await clients[0]?.call({ method: 'GET', path: FEED })
  const before = new Set<string>(JSON.parse(all?.text ?? '').ended)
  print(`the whole feed: ${before.size} ids, ${all?.text.length} bytes`)
  const startMs = performance.now()
  let found = 0
  for (let i = 0; i < CHECKS; i++) if (verifiers[0]?.isEnded(sessions[i % logouts]?.sid)) found++
  const checkUs = ((performance.now() - startMs) * 1000) / CHECKS
  print(`a check: ${checkUs.toFixed(2)} µs (${found} of ${CHECKS} refused)`)

  services[0]?.child.kill('SIGKILL')
  const restarted = await deployment.start(CHEAP)
  const client = await createClient(addressOf(restarted), deployment.dataDir)
  const after = new Set(JSON.parse((await client.call({ method: 'GET', path: FEED })).text).ended)
  const lost = [...before].filter(id => !after.has(id))
  print(`after a crash and a start: ${lost.length} of ${before.size} ids lost`)
  for (const { close } of [...clients, client]) close()
  await deployment.remove()
}

/** Of the answers of the feed to the verifiers. */
function countBytes(): void {
  const realFetch = globalThis.fetch
  globalThis.fetch = async (...request) => {
    const answer = await realFetch(...request)
    if (String(request[0]).includes(FEED)) {
      sizes.answers++
      sizes.bytes += Number(answer.headers.get('content-length'))
    }
    return answer
  }
}
