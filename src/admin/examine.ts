// Everything that the doctor looks at, in order.
import { type Config, ConfigError, loadConfig } from '../config.ts'
import type { Context } from './context.ts'
import { checkConfiguration } from './doctor-configuration.ts'
import { checkDatabase } from './doctor-database.ts'
import { checkFiles } from './doctor-files.ts'
import { checkMachine } from './doctor-machine.ts'
import { checkRunning } from './doctor-running.ts'
import { type Finding, problem } from './finding.ts'

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
