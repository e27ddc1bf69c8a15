// Checks the data folder, the certificate, the signing keys, the logo and the file of the settings.
import { readFile } from 'node:fs/promises'
import { parseEnv } from 'node:util'
import type { Config, TlsFiles } from '../../config/config.ts'
import {
  checkCertificate,
  checkName,
  developmentFiles,
  readTlsFiles,
} from '../../http/connection/tls.ts'
import { loadLogo } from '../../http/page/brand.ts'
import { checkKeys } from '../../keys/check-keys.ts'
import { checkDataFolder } from '../../service/data-folder.ts'
import { messageOf } from '../../system/files.ts'
import { checkReaders, type Finding, ok, problem, warning } from '../../system/finding.ts'

export async function checkFiles(config: Config, now: Date): Promise<Finding[]> {
  const { adminTls, page } = config
  const { logoFile } = page
  return [
    await checkDataFolder(config),
    await checkTls(config, config.tls, now),
    ...(adminTls ? [{ ...(await checkTls(config, adminTls, now)), check: 'admin tls' }] : []),
    await checkKeys(config, now),
    ...(logoFile ? [await checkLogo(logoFile)] : []),
    ...(await checkEnvFile(config)),
  ]
}

async function checkTls(config: Config, own: TlsFiles | null, now: Date): Promise<Finding> {
  if (!own && config.trustProxy.length > 0) return ok('tls', 'terminated by the proxies')
  const files = own ?? developmentFiles(config.dataDir)
  try {
    const material = await readTlsFiles(files)
    const found = await checkCertificate(config, files, material, now)
    // Behind a proxy users do not get this certificate, and at the admin API it may have another name.
    const isPublic = own !== null && own === config.tls && config.trustProxy.length === 0
    if (isPublic && found.state === 'ok') return checkName(config, material) ?? found
    if (own) return found
    return warning('tls', `development ${found.detail}: browsers will not trust it`)
  } catch (error) {
    return own
      ? problem('tls', `the certificate cannot be used: ${messageOf(error)}`)
      : warning('tls', 'no certificate: the service makes one for development at its start')
  }
}

/** `.env` may be read by all while it has no password. */
async function checkEnvFile(config: Config): Promise<Finding[]> {
  const { PGPASSWORD, DATABASE_URL = '' } = parseEnv(await readFile('.env', 'utf8').catch(() => ''))
  if (!PGPASSWORD && !/:[^/@]*@|[?&]password=/.test(DATABASE_URL)) return []
  const found = await checkReaders(config, 'password', '.env')
  return found ? [found] : []
}

async function checkLogo(file: string): Promise<Finding> {
  try {
    return ok('logo', `${file}, ${(await loadLogo(file)).type}`)
  } catch (error) {
    return problem('logo', `BRAND_LOGO_FILE cannot be used: ${messageOf(error)}`)
  }
}
