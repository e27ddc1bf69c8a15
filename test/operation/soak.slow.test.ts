// A service at half of its capacity, while certificates are renewed, keys and the log rotated, and rows purged: no wrong
// answer, no line lost or broken, and in the end as many descriptors as in the beginning. How memory and tables grow is
// reported, not judged. PROOF_SOAK_MINUTES=60 is the whole form.
import assert from 'node:assert/strict'
import { copyFileSync, globSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import bcrypt from 'bcrypt'
import { makeCertificate, servedAt } from '../support/certificates.ts'
import { createCli } from '../support/cli.ts'
import { ENGINES } from '../support/engines.ts'
import { scrape } from '../support/metrics.ts'
import { inParallel } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { createDeployment, type Line, runOwned, SERVE, stop, until } from '../support/process.ts'
import { createClient, PASSWORD, WITH_THREADS } from '../support/service.ts'
import { type Counts, runRounds, SOAK_USERS, soakEmail } from './soak-load.ts'
import { FIGURES, type Figure, type SoakSample, takeSample, trendOf } from './soak-samples.ts'

const MINUTES = Number(process.env.PROOF_SOAK_MINUTES ?? 0.15)
const DURATION_MS = MINUTES * 60_000
const CAPACITY_MS = Math.min(DURATION_MS / 6, 30_000)
const SAMPLES = 120
/** How often certificate, keys and log are renewed, and rows purged. */
const RENEWALS = MINUTES > 1 ? 4 : 2
const COST = 12
const HOST = '127.0.0.1'
/** The errors of a machine that is busy with other work. */
const TIME_LIMITS = /time ?out|in time|slow|^service\.killed$/

/** The lines of the two parts of the report. */
const report: { loads: string[]; rows: string[] } = { loads: [], rows: [] }

describe('at half of the capacity', { concurrency: true }, () => {
  for (const engine of ENGINES) {
    test(`nothing fails and nothing is left open on ${engine}`, async () => {
      const certificates = await inParallel(RENEWALS + 1, () => makeCertificate({ ip: HOST }))
      const threads = { ...WITH_THREADS, TLS_CERT_FILE: 'set below' }
      const deployment = await createDeployment(engine, threads)
      const cli = await createCli(deployment.database)
      const passwordHash = await bcrypt.hash(PASSWORD, COST)
      for (let user = 0; user < SOAK_USERS; user++)
        await deployment.addUser(soakEmail(user), passwordHash)
      const inFolder = (name: string) => join(cli.folder, name)
      const [log, trusted] = [inFolder('service.log'), inFolder('trusted.pem')]
      const env = {
        ...deployment.env,
        ...{ TLS_CERT_FILE: inFolder('cert.pem'), TLS_KEY_FILE: inFolder('key.pem') },
        SIGNING_KEYS_FILE: inFolder('signing-keys.json'),
        BCRYPT_COST: String(COST),
        ...{ PORT: String(await freePort()), OPS_PORT: String(await freePort()) },
      }
      const install = (index: number) => {
        writeFileSync(env.TLS_CERT_FILE, certificates[index]?.cert ?? '')
        writeFileSync(env.TLS_KEY_FILE, certificates[index]?.key ?? '', { mode: 0o600 })
      }
      install(0)
      writeFileSync(trusted, certificates.map(({ cert }) => cert).join('\n'))
      const command = ['sh', '-c', `exec "$@" >> ${log}`, 'sh', ...SERVE]
      const service = runOwned(env, { command })
      after(cli.remove)
      after(deployment.remove)
      const sample = (second: number) => takeSample(env.OPS_PORT, deployment.database, second)
      await until(() => isReady(env.OPS_PORT))
      const idle = await sample(0)

      const url = `https://${HOST}:${env.PORT}`
      const client = await createClient(url, '', trusted)
      const counts: Counts = { rounds: 0, logins: 0, wrong: 0, logouts: 0, others: 0, late: 0 }
      await runRounds(client.call, counts, CAPACITY_MS)
      // A login that was refused is no capacity.
      const roundsPerSecond = Math.max(1, counts.logins) / (CAPACITY_MS / 1_000) / 2
      const lateAtCapacity = counts.late

      const samples: SoakSample[] = []
      const load = runRounds(client.call, counts, DURATION_MS, roundsPerSecond)
      let isOver = false
      const watching = (async () => {
        const startMs = performance.now()
        while (!isOver) {
          samples.push(await sample((performance.now() - startMs) / 1_000))
          await sleep(DURATION_MS / SAMPLES)
        }
      })()
      const renewing = (async () => {
        for (let renewal = 1; renewal <= RENEWALS && !isOver; renewal++) {
          install(renewal)
          await until(async () => (await servedAt(url)) === certificates[renewal]?.fingerprint)
          for (const words of ['keys rotate', 'database purge']) {
            const { code, stderr } = await cli.run(words.split(' '), '', env)
            assert.equal(code, 0, stderr)
          }
          // As "copytruncate" of logrotate does.
          copyFileSync(log, `${log}.${renewal}`)
          truncateSync(log)
          service.kill('SIGHUP')
          await sleep(DURATION_MS / RENEWALS / 2)
        }
      })()
      await load
      isOver = true
      await Promise.all([watching, renewing])
      const series = await scrape(env.OPS_PORT)
      assert.equal(series.get('login_attempts_total{outcome="succeeded"}'), counts.logins)
      assert.equal(series.get('login_attempts_total{outcome="failed"}'), counts.wrong)
      assert.ok(Number(series.get('sessions_ended_total{reason="logout"}')) >= counts.logouts)
      assert.equal(series.get('log_lines_lost_total'), 0)
      assert.ok(await isReady(env.OPS_PORT))

      client.close()
      await until(async () => (await sample(0)).descriptors <= idle.descriptors)
      await stop(service)
      const events = globSync(`${log}*`).flatMap(eventsIn)
      const errors = events.filter(({ level, count }) => level === 'error' && !count)
      for (const { event, err } of errors) assert.match(err?.message ?? event, TIME_LIMITS)
      assert.ok(events.some(({ event }) => event === 'keys.reloaded'))
      assert.ok(events.some(({ event }) => event === 'service.stopped'))
      const { rounds, logins, wrong, logouts, others, late } = counts
      report.loads.push(
        `- ${engine}: ${roundsPerSecond.toFixed(1)} rounds per second, ${rounds} in all: ${logins} logins, ${wrong} wrong passwords, ${logouts} logouts, ${others} other requests; ${late - lateAtCapacity} answers of a time limit, and ${lateAtCapacity} more while the capacity was measured.`,
      )
      for (const [figure, name] of Object.entries(FIGURES)) {
        const { mean, perHour } = trendOf(samples, figure as Figure)
        report.rows.push(`| ${engine} | ${name} | ${mean.toFixed(1)} | ${perHour.toFixed(1)} |`)
      }
    })
  }
})

after(() => {
  const head = [
    '',
    '| engine | figure | mean of the second half | growth per hour |',
    '|---|---|--:|--:|',
  ]
  process.stdout.write(`\n${[...report.loads, ...head, ...report.rows].join('\n')}\n`)
})

async function isReady(opsPort: string): Promise<boolean> {
  const answer = await fetch(`http://${HOST}:${opsPort}/readyz`).catch(() => null)
  return answer?.status === 200
}

/** Fails if a line is not whole. */
function eventsIn(file: string): Line[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.filter(line => line !== '').map(line => JSON.parse(line))
}
