// doctor: what is configured, what is unsafe, whether TLS, keys, database and clock are in order. It
// makes nothing: no folder, certificate, key or database.
import { Command } from 'commander'
import { type Context, type JsonOption, printList } from '../context.ts'
import { Failure } from '../failures.ts'

export function doctorCommand(context: Context): Command {
  return new Command('doctor')
    .description('check the configuration and everything that it points to; changes nothing')
    .option('--json', 'print JSON')
    .action(async (options: JsonOption) => {
      // It loads what takes as long as all the rest of a command's start.
      const { examine } = await import('./examine.ts')
      const findings = await examine(context)
      await printList(context, [findings], options, finding => finding)
      const problems = findings.filter(({ state }) => state === 'problem').length
      if (problems === 1) throw new Failure('1 problem found.')
      if (problems > 1) throw new Failure(`${problems} problems found.`)
    })
}
