// Prometheus accepts the rules, scrapes the service, and its alert fires when passwords are guessed.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { inParallel, own, ownFolder } from '../../support/own.ts'
import { freePort } from '../../support/postgres-server.ts'
import { createDeployment, until } from '../../support/process.ts'
import { CONFIGURATION, startPrometheus } from './prometheus.ts'

const EMAIL = 'ann@example.com'

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
  const prometheus = await own(startPrometheus(opsPort))
  const firing = async () =>
    (await prometheus.alerts()).flatMap(({ state, labels }) =>
      state === 'firing' ? [labels.alertname] : [],
    )

  await until(async () => (await prometheus.targets()).every(({ health }) => health === 'up'))
  for (let i = 0; i < 100; i++) assert.equal((await service.login(EMAIL)).status, 200)
  const isLoginSeen = async () => {
    const now = new Date()
    const [series] = await prometheus.range('sum(sessions_opened_total)', now, now, 1)
    return Number(series?.values[0]?.[1]) === 100
  }
  await until(isLoginSeen)
  assert.deepEqual(await firing(), [])

  const guess = () => service.login(EMAIL, 'wrong password')
  await until(async () => {
    await inParallel(20, guess)
    return (await firing()).includes('LoginGuessing')
  })
})
