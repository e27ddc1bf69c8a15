// Checks the data folder, the certificate, the signing keys and the logo.
import type { Config, TlsFiles } from '../../config/config.ts'
import { checkCertificate, developmentFiles, readTlsFiles } from '../../http/connection/tls.ts'
import { loadLogo } from '../../http/page/brand.ts'
import { checkKeys } from '../../keys/check-keys.ts'
import { checkDataFolder } from '../../service/data-folder.ts'
import { messageOf } from '../../system/files.ts'
import { type Finding, ok, problem, warning } from '../../system/finding.ts'

export async function checkFiles(config: Config, now: Date): Promise<Finding[]> {
  const { adminTls, page } = config
  const { logoFile } = page
  return [
    await checkDataFolder(config),
    await checkTls(config, config.tls, now),
    ...(adminTls ? [{ ...(await checkTls(config, adminTls, now)), check: 'admin tls' }] : []),
    await checkKeys(config, now),
    ...(logoFile ? [await checkLogo(logoFile)] : []),
  ]
}

async function checkTls(config: Config, own: TlsFiles | null, now: Date): Promise<Finding> {
  if (!own && config.trustProxy.length > 0) return ok('tls', 'terminated by the proxies')
  const files = own ?? developmentFiles(config.dataDir)
  try {
    const found = await checkCertificate(config, files, await readTlsFiles(files), now)
    if (own) return found
    return warning('tls', `development ${found.detail}: browsers will not trust it`)
  } catch (error) {
    return own
      ? problem('tls', `the certificate cannot be used: ${messageOf(error)}`)
      : warning('tls', 'no certificate: the service makes one for development at its start')
  }
}

async function checkLogo(file: string): Promise<Finding> {
  try {
    return ok('logo', `${file}, ${(await loadLogo(file)).type}`)
  } catch (error) {
    return problem('logo', `BRAND_LOGO_FILE cannot be used: ${messageOf(error)}`)
  }
}
