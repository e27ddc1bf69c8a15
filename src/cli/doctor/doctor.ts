// doctor: checks the configuration, TLS, the keys, the database and the clock. It creates no folder,
// certificate, key or database, and writes only the time that /readyz writes too, to see whether it can.
import { Command } from 'commander'
import { count } from '../../admin/layout.ts'
import { type Config, ConfigError, loadConfig } from '../../config/config.ts'
import { Failure } from '../../system/failures.ts'
import { type Finding, problem } from '../../system/finding.ts'
import { type Context, type JsonOption, printList } from '../context.ts'
import { checkConfiguration } from './configuration.ts'
import { checkDatabase } from './database.ts'
import { checkFiles } from './files.ts'
import { checkMachine } from './machine.ts'
import { checkRunning } from './running.ts'

export function doctorCommand(context: Context): Command {
  return new Command('doctor')
    .description('check the configuration and everything that it points to; changes nothing')
    .option('--json', 'print JSON')
    .action(async (options: JsonOption) => {
      const findings = await examine(context)
      await printList(context, [findings], options, finding => finding)
      const problems = findings.filter(({ state }) => state === 'problem').length
      if (problems > 0) throw new Failure(`${count(problems, 'problem', 'problems')} found.`)
    })
}

async function examine({ env, envFileWarnings, clock }: Context): Promise<Finding[]> {
  let config: Config
  try {
    config = loadConfig(env, envFileWarnings)
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
