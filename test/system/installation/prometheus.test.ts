// Prometheus accepts the rules, scrapes the service, and its alert fires when passwords are guessed.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { freePort } from '../../support/postgres-server.ts'
import { createDeployment, until } from '../../support/process.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import { CONFIGURATION, startPrometheus } from './prometheus.ts'

const EMAIL = 'ann@example.com'

test('promtool accepts the configuration and the rules', () => {
  const output = execFileSync('promtool', ['check', 'config', `${CONFIGURATION}/prometheus.yml`])
  assert.match(output.toString(), /1 rule files found/)
})

test('instances with different signing keys fire an alert after ten minutes', async t => {
  const folder = await makeTemporaryFolder('login-alerts-')
  t.after(() => rm(folder, { recursive: true }))
  const file = join(folder, 'test.yml')
  const series = (instance: string, values: string) => ({
    series: `signing_keys_hash{job="login-service",instance="${instance}"}`,
    values,
  })
  const firing = (minutes: number, exp_samples: object[]) => ({
    expr: 'count(ALERTS{alertname="LoginKeysDiffer",alertstate="firing"})',
    eval_time: `${minutes}m`,
    exp_samples,
  })
  const rules = {
    rule_files: [resolve(CONFIGURATION, 'alerts.yml')],
    tests: [
      {
        interval: '1m',
        // From the eleventh minute on they differ.
        input_series: [series('a', '1x30'), series('b', '1x10 2x20')],
        promql_expr_test: [firing(20, []), firing(21, [{ labels: '{}', value: 1 }])],
      },
    ],
  }
  await writeFile(file, JSON.stringify(rules))
  execFileSync('promtool', ['test', 'rules', file])
})

test('guessing at a password fires an alert; ordinary logins do not', async t => {
  const deployment = await createDeployment('sqlite')
  t.after(() => deployment.remove())
  await deployment.addUser(EMAIL)
  const opsPort = String(await freePort())
  const service = await deployment.start({ OPS_PORT: opsPort })
  const prometheus = await startPrometheus(opsPort)
  t.after(() => prometheus.stop())
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
    await Promise.all(Array.from({ length: 20 }, guess))
    return (await firing()).includes('LoginGuessing')
  })
})
