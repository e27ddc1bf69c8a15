// Checks the data folder, the certificate, the signing keys, the logo and the file of the settings.
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { parseEnv } from 'node:util'
import type { Config, TlsFiles } from '../../config/config.ts'
import { checkCertificate, developmentFiles, readTlsFiles } from '../../http/connection/tls.ts'
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
    if (own) return (found.state === 'ok' && checkName(config, own, material.cert)) || found
    return warning('tls', `development ${found.detail}: browsers will not trust it`)
  } catch (error) {
    return own
      ? problem('tls', `the certificate cannot be used: ${messageOf(error)}`)
      : warning('tls', 'no certificate: the service makes one for development at its start')
  }
}

/** Null if browsers accept the certificate for the public address. Behind a proxy they do not get this one. */
function checkName({ tls, tokens, trustProxy }: Config, own: TlsFiles, cert: string) {
  if (own !== tls || trustProxy.length > 0) return null
  const certificate = new X509Certificate(cert)
  const host = new URL(tokens.issuer).hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) ? certificate.checkIP(host) : certificate.checkHost(host)) return null
  const names = certificate.subjectAltName ?? certificate.subject
  return warning(
    'tls',
    `certificate for ${names}, but JWT_ISSUER names ${host}: browsers refuse it`,
  )
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
