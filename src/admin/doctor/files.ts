// Checks the data folder, the certificate, the signing keys, the admin tokens and the logo.
import { X509Certificate } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Config } from '../../config/config.ts'
import { findExposure, findFolderProblem, findForeignGroup, hasCode } from '../../files.ts'
import {
  daysLeft,
  developmentFiles,
  EXPIRY_WARNING_DAYS,
  readTlsFiles,
} from '../../http/connection/tls.ts'
import { loadLogo } from '../../http/page/brand.ts'
import { loadKeySet } from '../../keys/key-file.ts'
import { findShortKey } from '../../keys/key-set.ts'
import { messageOf } from '../failures.ts'
import { readTokens } from '../tokens/token-file.ts'
import { type Finding, ok, problem, warning } from './finding.ts'

export async function checkFiles(config: Config, now: Date): Promise<Finding[]> {
  const { logoFile } = config.page
  return [
    await checkFolder(config),
    await checkTls(config, now),
    await checkKeys(config, now),
    ...(config.adminPort > 0 ? [await checkAdminTokens(config)] : []),
    ...(logoFile ? [await checkLogo(logoFile)] : []),
  ]
}

async function checkFolder({ dataDir }: Config): Promise<Finding> {
  try {
    const folder = await nearestFolder(dataDir)
    const reason = await findFolderProblem(folder)
    if (reason) return problem('data folder', `${folder} cannot be used: ${reason}`)
    return ok('data folder', folder === dataDir ? dataDir : `${dataDir}, made at the first start`)
  } catch (error) {
    return problem(
      'data folder',
      `${messageOf(error)}: set DATA_DIR to a folder that can be written to`,
    )
  }
}

/** The folder itself, or the existing folder in which it would be created. */
async function nearestFolder(path: string): Promise<string> {
  try {
    if ((await stat(path)).isDirectory()) return path
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
    return nearestFolder(dirname(path))
  }
  throw new Error(`${path} is not a folder`)
}

async function checkTls(config: Config, now: Date): Promise<Finding> {
  if (!config.tls && config.trustedProxies.length > 0) return ok('tls', 'terminated by the proxies')
  const files = config.tls ?? developmentFiles(config.dataDir)
  try {
    const { cert } = await readTlsFiles(files)
    const { validFromDate, subjectAltName, subject } = new X509Certificate(cert)
    const days = Math.floor(daysLeft(cert, now))
    const detail = `certificate for ${subjectAltName ?? subject}, ${days} days left`
    if (!config.tls) return warning('tls', `development ${detail}: browsers will not trust it`)
    if (days < 0) return problem('tls', `${files.certFile} has expired: renew it`)
    if (validFromDate > now) {
      return problem('tls', `${files.certFile} is not valid yet: check the clock of this machine`)
    }
    const readers = await checkReaders(config, 'tls', files.keyFile)
    if (readers) return readers
    return days < EXPIRY_WARNING_DAYS
      ? warning('tls', `${detail}: renew it soon`)
      : ok('tls', detail)
  } catch (error) {
    if (!config.tls) {
      return warning('tls', 'no certificate: the service makes one for development at its start')
    }
    return problem('tls', `the certificate cannot be used: ${messageOf(error)}`)
  }
}

async function checkKeys(config: Config, now: Date): Promise<Finding> {
  const { signingKeysFile: path, environment } = config
  try {
    const keySet = await loadKeySet(path)
    const { accessKeys, refreshKeys } = keySet
    const readers = await checkReaders(config, 'keys', path)
    if (readers) return readers
    const short = findShortKey(keySet, () => false)
    if (short) return warning('keys', `${path}: ${short}: "keys rotate" replaces it`)
    const detail = `${path}: ${accessKeys.length} for access tokens, ${refreshKeys.length} for refresh tokens`
    const isTooEarly = [accessKeys, refreshKeys].some(keys =>
      keys.every(({ signsFrom }) => signsFrom * 1000 > now.getTime()),
    )
    return isTooEarly
      ? warning(
          'keys',
          `${detail}; all keys of a kind start in the future: check the clock of this machine`,
        )
      : ok('keys', detail)
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) return problem('keys', `${path}: ${messageOf(error)}`)
    return environment === 'production'
      ? problem('keys', `${path} is not there: "keys rotate" makes it`)
      : warning('keys', `${path} is not there: the service makes it at its start`)
  }
}

async function checkAdminTokens(config: Config): Promise<Finding> {
  const { adminTokensFile: path, environment } = config
  try {
    const { tokens } = await readTokens(path)
    const readers = await checkReaders(config, 'admin tokens', path)
    if (readers) return readers
    const writing = tokens.filter(({ role }) => role === 'write').length
    return ok('admin tokens', `${path}: ${tokens.length} tokens, ${writing} of them may write`)
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) return problem('admin tokens', `${path}: ${messageOf(error)}`)
    const advice = `${path} is not there: "admin-tokens add" makes it`
    return environment === 'production'
      ? problem('admin tokens', advice)
      : warning('admin tokens', advice)
  }
}

async function checkLogo(file: string): Promise<Finding> {
  try {
    return ok('logo', `${file}, ${(await loadLogo(file)).type}`)
  } catch (error) {
    return problem('logo', `BRAND_LOGO_FILE cannot be used: ${messageOf(error)}`)
  }
}

/** Production refuses to start with an exposed secret. */
async function checkReaders(
  { environment }: Config,
  check: string,
  path: string,
): Promise<Finding | null> {
  const exposure = await findExposure(path)
  if (exposure) return (environment === 'production' ? problem : warning)(check, exposure)
  const foreign = await findForeignGroup(path)
  return foreign ? warning(check, foreign) : null
}
