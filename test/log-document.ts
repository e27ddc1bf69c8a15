// What docs/log-events.md says, and which events the code has.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROJECT } from './process.ts'

export type LoggedLine = Record<string, unknown>

export const textOf = (file: string) => readFileSync(join(PROJECT, file), 'utf8')
const document = textOf('docs/log-events.md')
export const examples: LoggedLine[] = [...document.matchAll(/^\{.*\}$/gm)].map(([line]) =>
  JSON.parse(line),
)
/** The events in the tables, with their levels. */
export const listed = [...document.matchAll(/^\| `([a-z_]+\.[a-z_]+)` \| ([a-z, ]+) \|/gm)].map(
  ([, event = '', levels = '']) => ({ event, levels: levels.split(', ') }),
)
export const examplesOf = (event: string) => examples.filter(line => line.event === event)

/** The events in the code: of the service as fields of lines, of commands as names. */
export function eventsInCode(): string[] {
  const files = globSync('src/**/*.ts', { cwd: PROJECT, exclude: ['**/*.test.ts'] })
  const names = files.flatMap(file => {
    const name = file.startsWith('src/admin/') ? /'(admin\.[a-z_]+)'/g : /event: '([a-z_.]+)'/g
    return [...textOf(file).matchAll(name)].map(match => match[1] ?? '')
  })
  return [...new Set(names)].toSorted()
}

/** Fields with a closed set of values, and the declarations in `src/` that list them. */
export const CLOSED: [
  field: string,
  event: string,
  declarations: [file: string, start: string][],
][] = [
  ['reason', 'login.failed', [['login/decision.ts', 'type RejectionReason =']]],
  ['reason', 'login.shed', [['login/admission.ts', 'type ShedReason =']]],
  ['scope', 'login.throttled', [['domain/attempt.ts', 'type ScopeName =']]],
  ['reason', 'session.ended', [['metrics/metrics.ts', 'const REASONS =']]],
  ['credential', 'session.refused', [['session/authenticate.ts', 'type Credential =']]],
  [
    'reason',
    'session.refused',
    [
      ['session/token-reason.ts', 'type TokenReason ='],
      ['domain/session.ts', 'type SessionReason ='],
      ['session/authenticate.ts', 'type AccessReason ='],
    ],
  ],
  [
    'reason',
    'code.refused',
    [
      ['session/redeem-code.ts', 'type CodeReason ='],
      ['domain/session.ts', 'type SessionReason ='],
    ],
  ],
  [
    'reason',
    'request.refused',
    [
      ['http/request/log.ts', 'const REASON_OF ='],
      ['http/request/log.ts', 'type FormReason ='],
      ['http/request/log.ts', 'type OriginReason ='],
    ],
  ],
  ['reason', 'admin.refused', [['http/admin/access.ts', 'type Reason =']]],
]
/** The first column of the table about a field. */
export function documentedValues(field: string, event: string): string[] {
  const [, rows = ''] = document.split(`\n| \`${field}\` of \`${event}\` | means |\n|---|---|\n`)
  const [table = ''] = rows.split('\n\n')
  return [...table.matchAll(/^\| `([a-z-]+)` \|/gm)].map(match => match[1] ?? '')
}
