// A real Prometheus that scrapes one service, with the project's configuration and alert rules.
import { cp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../support/postgres-server.ts'
import { run, until } from '../../support/process.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'

export const CONFIGURATION = 'deploy/prometheus'

type Alert = { state: string; labels: { alertname: string }; annotations: Record<string, string> }
type Values = { metric: Record<string, string>; values: [number, string][] }

/** Scrapes every second, so that a test need not wait for minutes. */
export async function startPrometheus(opsPort: string) {
  const folder = await makeTemporaryFolder('login-prometheus-')
  await cp(CONFIGURATION, folder, { recursive: true })
  const file = join(folder, 'prometheus.yml')
  const configuration = await readFile(file, 'utf8')
  await writeFile(
    file,
    configuration.replaceAll('15s', '1s').replace('127.0.0.1:9443', `127.0.0.1:${opsPort}`),
  )
  const address = `127.0.0.1:${await freePort()}`
  const command = [
    ...[
      '/usr/bin/prometheus',
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
    ],
    `--web.listen-address=${address}`,
  ]
  const prometheus = run({}, { command })
  const ask = async <T>(path: string): Promise<T> => {
    const { data } = (await (await fetch(`http://${address}/api/v1/${path}`)).json()) as { data: T }
    return data
  }
  await until(() =>
    fetch(`http://${address}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  return {
    alerts: async () => (await ask<{ alerts: Alert[] }>('alerts')).alerts,
    targets: async () =>
      (await ask<{ activeTargets: { health: string }[] }>('targets')).activeTargets,
    async range(expression: string, start: Date, end: Date, stepSeconds: number) {
      const query = new URLSearchParams({
        query: expression,
        start: start.toISOString(),
        end: end.toISOString(),
        step: String(stepSeconds),
      })
      return (await ask<{ result: Values[] }>(`query_range?${query}`)).result
    },
    async stop() {
      prometheus.kill('SIGKILL')
      await prometheus.exit
      await rm(folder, { recursive: true })
    },
  }
}
