// serve
import { Command, type Help } from 'commander'
import { loadConfig } from '../config/config.ts'
import { OPERATOR_VARIABLES } from '../config/variables.ts'
import type { Context } from './context.ts'

export function serveCommand({ env, envFileWarnings, clock }: Context): Command {
  return new Command('serve')
    .description('run the service')
    .addHelpText('after', ({ command }) => helpOnVariables(command.createHelp()))
    .action(async () => {
      // Loaded here, because help texts do not need the server's libraries.
      const { createLog } = await import('../log/log.ts')
      const { serveUntilSignal } = await import('../service/serve.ts')
      const config = loadConfig(env, envFileWarnings)
      const log = createLog(config.logLevel, process.stdout, config.logIp)
      await serveUntilSignal(config, log, clock)
    })
}

function helpOnVariables(help: Help): string {
  const width = Math.max(...OPERATOR_VARIABLES.map(({ name }) => name.length))
  const items = OPERATOR_VARIABLES.map(({ name, byDefault, kind: { values }, sentence }) => {
    const rules = byDefault ? `${values}; default: ${byDefault}` : values
    return help.formatItem(name, width, `${sentence} [${rules}]`.replaceAll('`', ''), help)
  })
  return ['', 'Environment variables:', ...items].join('\n')
}
