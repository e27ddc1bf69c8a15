// Checks that the keys can be used and are safe.
import type { Config } from '../config/config.ts'
import { hasCode } from '../system/files.ts'
import { checkReaders, type Finding, ok, problem, warning } from '../system/finding.ts'
import { explainKeyFile, loadKeySet } from './key-file.ts'
import { findShortKey, type KeySet } from './key-set.ts'

/** Of the issuer and the `kid` of a secret together: a refresh token has both, and at most 500 characters. */
export const NAMES_MAX_CHARACTERS = 122

export async function checkKeys(config: Config, now: Date): Promise<Finding> {
  const { signingKeysFile: path, nodeEnv, tokens, secondFactor, secondFactorRoles } = config
  const isDemanded = secondFactorRoles.length > 0 || config.console !== null
  let keySet: KeySet
  try {
    keySet = await loadKeySet(path)
  } catch (error) {
    return hasCode(error, 'ENOENT') && nodeEnv !== 'production'
      ? warning('keys', `${path} is not there: the service makes it at its start`)
      : problem('keys', explainKeyFile(path, error))
  }
  const { accessKeys, refreshKeys, encryptionKeys } = keySet
  const canEncrypt = encryptionKeys.length > 0
  if (!canEncrypt && nodeEnv === 'production' && isDemanded) {
    const demanding = secondFactorRoles.length > 0 ? 'SECOND_FACTOR_ROLES' : 'the console'
    const advice = 'needs a key that encrypts second factors: "keys rotate" adds one'
    return problem('keys', `${path}: ${demanding} ${advice}`)
  }
  const readers = await checkReaders(config, 'keys', path)
  if (readers) return readers
  const short = findShortKey(keySet, () => false)
  if (short) return warning('keys', `${path}: ${short}: "keys rotate" replaces it`)
  const kidMax = NAMES_MAX_CHARACTERS - tokens.issuer.length
  if (refreshKeys.some(({ keyId }) => keyId.length > kidMax)) {
    const advice = `with this JWT_ISSUER, the "kid" of a secret may have ${kidMax} characters`
    return problem('keys', `${path}: ${advice}`)
  }
  const detail = `${path}: ${accessKeys.length} for access tokens, ${refreshKeys.length} for refresh tokens, ${encryptionKeys.length} for second factors`
  const isTooEarly = [accessKeys, refreshKeys, encryptionKeys].some(
    keys => keys.length > 0 && keys.every(({ usedFrom }) => usedFrom * 1000 > now.getTime()),
  )
  if (isTooEarly) {
    const advice = 'all keys of a kind start in the future: check the clock of this machine'
    return warning('keys', `${detail}; ${advice}`)
  }
  if (canEncrypt || secondFactor === 'off') return ok('keys', detail)
  return warning('keys', `${detail}: these cannot be set up until "keys rotate" adds a key`)
}
