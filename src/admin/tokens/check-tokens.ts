// Checks that the admin tokens can be used and are safe.
import type { Config } from '../../config/config.ts'
import { checkReaders, type Finding, ok, unsafe } from '../../finding.ts'
import { type AdminToken, explainTokenFile, readTokens } from './token-file.ts'

/** Empty if the admin API is off. Outside production a broken file is a warning: it is read on each request. */
export async function checkTokens(config: Config): Promise<Finding[]> {
  if (config.adminPort === 0) return []
  const { adminTokensFile: path } = config
  let tokens: AdminToken[]
  try {
    ;({ tokens } = await readTokens(path))
  } catch (error) {
    return [unsafe(config)('admin tokens', explainTokenFile(path, error))]
  }
  const readers = await checkReaders(config, 'admin tokens', path)
  const writing = tokens.filter(({ role }) => role === 'write').length
  return [
    readers ?? ok('admin tokens', `${path}: ${tokens.length} tokens, ${writing} of them may write`),
  ]
}
