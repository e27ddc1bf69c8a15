// What the help of each command shows as examples. Those of operations are in operations/.
import type { Command } from 'commander'

export const PROGRAM = './login-service'

export function addExamples(command: Command, examples: string[]): void {
  const title = examples.length === 1 ? 'Example' : 'Examples'
  const lines = examples.map(example => `\n  ${PROGRAM} ${example}`)
  command.addHelpText('after', `\n${title}:${lines.join('')}`)
}

export const EXAMPLES: Record<string, string[]> = {
  '': ['users list', 'help users add'],
  serve: ['serve'],
  'users import': [
    'users import users.csv --dry-run',
    'users import old-users.csv --map login=email --ignore-unknown',
  ],
  'users export': ['users export --with-hashes --output users.ndjson'],
  'sessions end': ['sessions end ann@example.org', 'sessions end --all --yes'],
  'keys list': ['keys list'],
  'keys rotate': ['keys rotate', 'keys rotate --now'],
  'database migrate': ['database migrate'],
  'database status': ['database status --json'],
  'database purge': ['database purge'],
  doctor: ['doctor'],
}
