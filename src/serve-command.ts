// serve
import { Command, type Help } from 'commander'
import type { Context } from './admin/context.ts'
import { loadConfig } from './config/config.ts'
import { describeVariables } from './config/variables.ts'

export function serveCommand({ env, envFileWarnings, clock }: Context): Command {
  return new Command('serve')
    .description('run the service')
    .addHelpText('after', ({ command }) => helpOnVariables(command.createHelp()))
    .action(async () => {
      // Loaded here, because help texts do not need the server's libraries.
      const { createLog } = await import('./log/log.ts')
      const { serveUntilSignal } = await import('./serve.ts')
      const config = loadConfig(env, envFileWarnings)
      const log = createLog(config.logLevel, process.stdout, config.logIp)
      await serveUntilSignal(config, log, clock)
    })
}

function helpOnVariables(help: Help): string {
  const described = describeVariables().map(({ name, byDefault, values, meaning }) => {
    const rules = byDefault ? `${values}; default: ${byDefault}` : values
    return { name, text: `${meaning} [${rules}]`.replaceAll('`', '') }
  })
  const width = Math.max(...described.map(({ name }) => name.length))
  const items = described.map(({ name, text }) => help.formatItem(name, width, text, help))
  return ['', 'Environment variables:', ...items].join('\n')
}
