// Prometheus accepts the rules, scrapes the service, and its alert fires when passwords are guessed.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { inParallel, own, ownFolder } from '../../support/own.ts'
import { eventually, freePort } from '../../support/postgres-server.ts'
import { createDeployment, runOwned, until } from '../../support/process.ts'

const CONFIGURATION = 'deploy/prometheus'
const EMAIL = 'ann@example.com'

type Alert = { state: string; labels: { alertname: string } }

test('promtool accepts the configuration and the rules', () => {
  const output = execFileSync('promtool', ['check', 'config', `${CONFIGURATION}/prometheus.yml`])
  assert.match(output.toString(), /1 rule files found/)
})

/** Whether an alert fires at these minutes, while the series have these values, one a minute. */
async function firesAt(
  alert: string,
  series: Record<string, string>,
  minutes: Record<number, boolean>,
): Promise<void> {
  const rules = {
    rule_files: [resolve(CONFIGURATION, 'alerts.yml')],
    tests: [
      {
        interval: '1m',
        input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
        promql_expr_test: Object.entries(minutes).map(([minute, isFiring]) => ({
          expr: `count(ALERTS{alertname="${alert}",alertstate="firing"})`,
          eval_time: `${minute}m`,
          exp_samples: isFiring ? [{ labels: '{}', value: 1 }] : [],
        })),
      },
    ],
  }
  const file = join(await ownFolder(), 'test.yml')
  await writeFile(file, JSON.stringify(rules))
  execFileSync('promtool', ['test', 'rules', file])
}

test('instances with different signing keys fire an alert after ten minutes', () => {
  const of = (instance: string) => `signing_keys_hash{job="login-service",instance="${instance}"}`
  // From the eleventh minute on they differ.
  const series = { [of('a')]: '1x30', [of('b')]: '1x10 2x20' }
  return firesAt('LoginKeysDiffer', series, { 20: false, 21: true })
})

test('operations that wait for a connection fire an alert, but not while the database is down', () => {
  const waiting = 'database_connections{job="login-service",instance="a",state="waiting"}'
  const done =
    'database_operation_seconds_count{job="login-service",instance="a",operation="users.set",result="done"}'
  // In the first ten minutes no operation ends.
  const series = { [waiting]: '3x30', [done]: '7x10 17+10x19' }
  return firesAt('LoginConnectionsUsedUp', series, { 10: false, 20: true })
})

test('guessing at a password fires an alert; ordinary logins do not', async () => {
  const deployment = await own(createDeployment('sqlite'))
  await deployment.addUser(EMAIL)
  const opsPort = String(await freePort())
  const service = await deployment.start({ OPS_PORT: opsPort })
  const prometheus = await startPrometheus(opsPort)
  const firing = async () =>
    (await prometheus.alerts()).flatMap(({ state, labels }) =>
      state === 'firing' ? [labels.alertname] : [],
    )

  await until(async () => (await prometheus.targets()).every(({ health }) => health === 'up'))
  for (let i = 0; i < 100; i++) assert.equal((await service.login(EMAIL)).status, 200)
  await until(async () => (await prometheus.value('sum(sessions_opened_total)')) === 100)
  assert.deepEqual(await firing(), [])

  const guess = () => service.login(EMAIL, 'wrong password')
  await until(async () => {
    await inParallel(20, guess)
    return (await firing()).includes('LoginGuessing')
  })
})

/** Scrapes every second, so that a test need not wait for minutes. */
async function startPrometheus(opsPort: string) {
  const folder = await ownFolder('login-prometheus-')
  await cp(CONFIGURATION, folder, { recursive: true })
  const file = join(folder, 'prometheus.yml')
  const configuration = await readFile(file, 'utf8')
  await writeFile(
    file,
    configuration.replaceAll('15s', '1s').replace('127.0.0.1:9443', `127.0.0.1:${opsPort}`),
  )
  const address = `127.0.0.1:${await freePort()}`
  const flags = { 'config.file': file, 'storage.tsdb.path': join(folder, 'data') }
  const words = Object.entries({ ...flags, 'web.listen-address': address })
  const command = ['/usr/bin/prometheus', ...words.map(([name, value]) => `--${name}=${value}`)]
  runOwned({}, { command })
  const ask = async <T>(path: string): Promise<T> => {
    const { data } = (await (await fetch(`http://${address}/api/v1/${path}`)).json()) as { data: T }
    return data
  }
  await eventually(async () => assert.ok((await fetch(`http://${address}/-/ready`)).ok))
  return {
    alerts: async () => (await ask<{ alerts: Alert[] }>('alerts')).alerts,
    targets: async () =>
      (await ask<{ activeTargets: { health: string }[] }>('targets')).activeTargets,
    value: async (expression: string) => {
      const query = new URLSearchParams({ query: expression })
      const { result } = await ask<{ result: { value: [number, string] }[] }>(`query?${query}`)
      return Number(result[0]?.value[1])
    },
  }
}
