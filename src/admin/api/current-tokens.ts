// The admin tokens as the file has them at this moment: a revoked token is refused from its next request on.

import { findExposure } from '../../files.ts'
import { type AdminToken, readTokens, TokenFileError, versionOf } from '../tokens/token-file.ts'

/** Two changes within one tick of the file system's clock could leave the same version. */
const SETTLED_AFTER_MS = 1_000

export type TokensByDigest = ReadonlyMap<string, AdminToken>

/** Looks at the file on each call, and reads it only if it has changed. Rejects if it cannot be used. */
export function followTokens(path: string): () => Promise<TokensByDigest> {
  let known: { version: string; tokens: TokensByDigest } | null = null
  return async () => {
    if (known?.version === (await versionOf(path))) return known.tokens
    const { tokens, version, changedAtMs } = await readTokens(path)
    // After the read: a mode that changes later changes the version too.
    const exposure = await findExposure(path)
    if (exposure) throw new TokenFileError(exposure)
    const byDigest = new Map(tokens.map(token => [token.digest, token]))
    const isSettled = Math.abs(Date.now() - changedAtMs) > SETTLED_AFTER_MS
    known = isSettled ? { version, tokens: byDigest } : null
    return byDigest
  }
}
