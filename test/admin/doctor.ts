// The doctor of a suite, on a SQLite database and with a safe production configuration.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { Finding } from '../../src/system/finding.ts'
import { writeCertificate } from '../support/certificates.ts'
import type { Cli } from '../support/cli.ts'
import { setUpEmptyCli } from '../support/transcripts.ts'

export async function setUpDoctor() {
  const cli = await setUpEmptyCli()
  const production = {
    NODE_ENV: 'production',
    BCRYPT_COST: '10',
    // The doctor measures the engine: this one is ready sooner, and fast enough on a busy machine.
    PASSWORD_ENGINE: 'native',
    LOGIN_TIME_MS: '5000',
    JWT_ISSUER: 'https://login.example.org',
    SIGNING_KEYS_FILE: join(cli.folder, 'keys.json'),
    ...(await writeCertificate(cli.folder, 'valid', { name: 'login.example.org' })),
  }
  assert.equal((await cli.run(['keys', 'rotate'], '', production)).code, 0)

  return { cli, production, examine: (env: Record<string, string>) => examine(cli, env) }
}

export async function examine({ run }: Cli, env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await run(['doctor', '--json'], '', env)
  const findings: Finding[] = JSON.parse(stdout)
  return { code, stderr, findings }
}

/** What it says of this, as "state: detail"; undefined if nothing. */
export async function detailOf(check: string, ...of: Parameters<typeof examine>) {
  const { findings } = await examine(...of)
  const found = findings.find(finding => finding.check === check)
  return found && `${found.state}: ${found.detail}`
}
