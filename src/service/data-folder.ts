// The folder of the SQLite database, and of the keys and the certificate that development makes.
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Config } from '../config/config.ts'
import { findFolderProblem, hasCode, makeFolder, messageOf } from '../system/files.ts'
import { type Finding, ok, problem } from '../system/finding.ts'

/** Creates nothing: a folder that is not there is ok if it can be made. */
export async function checkDataFolder({ dataDir, database, nodeEnv }: Config): Promise<Finding> {
  try {
    const folder = await nearestFolder(dataDir)
    const isWritten = database.engine === 'sqlite' || nodeEnv !== 'production'
    const reason = isWritten || folder !== dataDir ? await findFolderProblem(folder) : null
    return reason
      ? problem(
          'data folder',
          `The data folder ${folder} cannot be used: ${reason}, or set DATA_DIR`,
        )
      : ok('data folder', folder === dataDir ? dataDir : `${dataDir}, made at the first start`)
  } catch (error) {
    return cannotBeMade(dataDir, error)
  }
}

export async function makeDataFolder(config: Config): Promise<Finding> {
  try {
    await makeFolder(config.dataDir)
  } catch (error) {
    return cannotBeMade(config.dataDir, error)
  }
  return checkDataFolder(config)
}

function cannotBeMade(dataDir: string, error: unknown): Finding {
  return problem(
    'data folder',
    `The data folder ${dataDir} cannot be made: ${messageOf(error)}. Set DATA_DIR to a folder that you can write to`,
  )
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
