// The doctor of a suite, on a SQLite database and with a safe production configuration.
import { after } from 'node:test'
import type { Finding } from '../../src/system/finding.ts'
import { createCli, productionEnv } from '../support/cli.ts'
import { createTestDatabase } from '../support/engines.ts'

export async function setUpDoctor() {
  const database = await createTestDatabase('sqlite')
  const cli = await createCli(database)
  after(async () => {
    await cli.remove()
    await database.drop()
  })
  const production = await productionEnv(cli)

  async function examine(env: Record<string, string>) {
    const { code, stdout, stderr } = await cli.run(['doctor', '--json'], '', env)
    const findings: Finding[] = JSON.parse(stdout)
    return { code, stderr, findings }
  }
  return { database, cli, production, examine }
}
