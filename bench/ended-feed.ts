// npm run bench:feed [-- --logouts 300]: how long after a logout three verifiers refuse the token, with one instance and
// with three on PostgreSQL, while 20,000 sessions end in an hour; what the feed and a check cost; what a crash loses.
// Then what a user of the service notices of 20 callers that read 200,000 ids without a pause. With --logouts 0 only that.
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, setDefaultCACertificates } from 'node:tls'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { createVerifier } from '../examples/verifier.js'
import type { EngineName } from '../src/storage/sql/engine.ts'
import { fillSessions } from '../test/support/many-sessions.ts'
import { createClient } from '../test/support/service.ts'
import { loopbackAddress } from './clients.ts'
import { get } from './connection.ts'
import type { ReadersData } from './feed-readers.ts'
import { describeMachine, machineLine } from './machine.ts'
import { endRun, useRunFolder } from './processes.ts'
import { CHEAP_COST, emailOf, PASSWORD } from './seed.ts'
import { CHEAP, type Deployment, deploy, type Service } from './service.ts'
import { quantile } from './statistics.ts'

const PER_HOUR = 20_000
const VERIFIERS = 3
const CHECKS = 1_000_000
const FEED = '/.well-known/ended-sessions'
const SESSION = '/api/v1/auth/session'
/** Ends of so many different moments are in the feed. */
const PARTS = 200
const READERS = 20
const READ_IDS = 200_000
const MEASURED_MS = 20_000
const SILENT = 150

const { values } = parseArgs({ options: { logouts: { type: 'string', default: '300' } } })
const logouts = Number(values.logouts)
const print = (line: string) => process.stdout.write(`${line}\n`)
const addressOf = ({ target }: Service) => `https://localhost:${target.port}`

useRunFolder()
print(machineLine(describeMachine()))
const sizes = { answers: 0, bytes: 0 }
countBytes()
if (logouts > 0) for (const instances of [1, 3]) await measure(instances)
for (const engine of ['sqlite', 'postgres'] as const) {
  for (const minutes of [60, 1]) await measureReaders(engine, minutes)
}
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
  await fillFeed(deployment, PER_HOUR, 60)
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

  const before = await readFeed(clients[0])
  print(`the whole feed: ${before.size} ids`)
  const startMs = performance.now()
  let found = 0
  for (let i = 0; i < CHECKS; i++) if (verifiers[0]?.isEnded(sessions[i % logouts]?.sid)) found++
  const checkUs = ((performance.now() - startMs) * 1000) / CHECKS
  print(`a check: ${checkUs.toFixed(2)} µs (${found} of ${CHECKS} refused)`)

  services[0]?.child.kill('SIGKILL')
  const restarted = await deployment.start(CHEAP)
  const client = await createClient(addressOf(restarted), deployment.dataDir)
  const after = await readFeed(client)
  const lost = [...before].filter(id => !after.has(id))
  print(`after a crash and a start: ${lost.length} of ${before.size} ids lost`)
  for (const { close } of [...clients, client]) close()
  await deployment.remove()
}

async function measureReaders(engine: EngineName, minutes: number): Promise<void> {
  const deployment = await deploy(engine, 1)
  await fillFeed(deployment, READ_IDS, minutes)
  const service = await deployment.start(CHEAP)
  const client = await createClient(addressOf(service), deployment.dataDir)
  const login = await client.call({ body: { email: emailOf(0, CHEAP_COST), password: PASSWORD } })
  const headers = { Authorization: `Bearer ${login.json.data.accessToken}` }
  const askForSession = async () => {
    const takenMs: number[] = []
    for (const endMs = performance.now() + MEASURED_MS; performance.now() < endMs; ) {
      const startMs = performance.now()
      const { status } = await client.call({ method: 'GET', path: SESSION, headers })
      if (status !== 200) throw new Error(`GET /session was answered ${status}`)
      takenMs.push(performance.now() - startMs)
      await sleep(20)
    }
    return [0.5, 0.95].map(share => quantile(takenMs, share).toFixed(0)).join(' and ')
  }
  print(`\n${engine}, ${READ_IDS} ends within ${minutes} minute(s), ${READERS} readers`)
  print(`GET /session alone, median and p95: ${await askForSession()} ms`)
  const counts = new Int32Array(new SharedArrayBuffer(12))
  const url = `${addressOf(service)}${FEED}`
  const workerData: ReadersData = { url, readers: READERS, counts }
  const readers = new Worker(new URL('feed-readers.ts', import.meta.url), { workerData })
  print(`GET /session beside the readers: ${await askForSession()} ms`)
  const [pages, reads, failures] = counts
  print(`meanwhile: ${pages} pages, all of them ${reads} times, ${failures} failures`)
  await readers.terminate()

  const beforeMiB = await service.residentMiB()
  const silent = Array.from({ length: SILENT }, (_, i) => {
    const { port, certificate: ca } = service.target
    const place = { host: '127.0.0.1', localAddress: loopbackAddress(i), port }
    const socket = connect({ ...place, ...(ca && { ca }), servername: 'localhost' })
    // Without a listener for its data, nothing is read.
    return socket
      .on('error', () => {})
      .pause()
      .end(get(FEED))
  })
  await sleep(5_000)
  const afterMiB = await service.residentMiB()
  print(
    `${SILENT} callers that do not read: ${beforeMiB.toFixed(0)} MiB before, ${afterMiB.toFixed(0)} with them`,
  )
  for (const socket of silent) socket.destroy()
  client.close()
  await deployment.remove()
}

/** Spread over the last minutes. */
async function fillFeed({ database }: Deployment, ends: number, minutes: number): Promise<void> {
  const [user] = await database.rows('select id from users limit 1')
  for (let part = 0; part < PARTS; part++) {
    const agoMs = (part * minutes * 60_000) / PARTS
    const filling = { tokensEach: 0, endedAt: new Date(Date.now() - agoMs) }
    await fillSessions(database, String(user?.id), ends / PARTS, new Date(), filling)
  }
  // PostgreSQL does so by itself, but not at once.
  await database.rows('analyze')
}

async function readFeed(client?: Awaited<ReturnType<typeof createClient>>): Promise<Set<string>> {
  const ids = new Set<string>()
  for (let query = ''; ; ) {
    const answer = await client?.call({ method: 'GET', path: `${FEED}${query}` })
    const { ended, next, more } = JSON.parse(answer?.text ?? '')
    for (const id of ended) ids.add(id)
    if (!more) return ids
    query = `?after=${next}`
  }
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
