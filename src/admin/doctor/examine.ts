// Everything that the doctor looks at, in order.
import { type Config, ConfigError, loadConfig } from '../../config/config.ts'
import type { Context } from '../context.ts'
import { checkConfiguration } from './configuration.ts'
import { checkDatabase } from './database.ts'
import { checkFiles } from './files.ts'
import { type Finding, problem } from './finding.ts'
import { checkMachine } from './machine.ts'
import { checkRunning } from './running.ts'

export async function examine({ env, clock }: Context): Promise<Finding[]> {
  let config: Config
  try {
    config = loadConfig(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(detail => problem('configuration', detail))
  }
  const now = clock()
  return [
    ...checkConfiguration(config),
    ...(await checkFiles(config, now)),
    ...(await checkRunning(config, now)),
    ...(await checkDatabase(config, clock)),
    ...(await checkMachine(config, now)),
  ]
}
