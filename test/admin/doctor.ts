// The doctor of a suite, on a SQLite database and with a safe production configuration.
import type { Finding } from '../../src/system/finding.ts'
import { productionEnv } from '../support/cli.ts'
import { setUpEmptyCli } from '../support/transcripts.ts'

export async function setUpDoctor() {
  const cli = await setUpEmptyCli()
  const production = await productionEnv(cli)

  async function examine(env: Record<string, string>) {
    const { code, stdout, stderr } = await cli.run(['doctor', '--json'], '', env)
    const findings: Finding[] = JSON.parse(stdout)
    return { code, stderr, findings }
  }
  return { cli, production, examine }
}
