// What every command is given: the terminal, the environment and the machine's clock.
import { resolve } from 'node:path'
import { createJsonList, createTable, type Row } from '../admin/layout.ts'
import { type Config, loadConfig } from '../config/config.ts'
import type { Terminal } from './terminal.ts'

export type Context = {
  terminal: Terminal
  env: Record<string, string | undefined>
  envFileWarnings: readonly string[]
  clock: () => Date
}

export type JsonOption = { json?: boolean }

export function configOf({ env, envFileWarnings, terminal }: Context): Config {
  const config = loadConfig(env, envFileWarnings)
  for (const warning of config.warnings) terminal.say(`Warning: ${warning}`)
  return config
}

/** A file that was named on the command line. deploy/login-admin runs in the folder of the settings. */
export function pathFor({ CALLER_FOLDER }: Context['env'], named: string): string {
  return CALLER_FOLDER ? resolve(CALLER_FOLDER, named) : named
}

/** Prints a list as JSON or as a table, batch by batch; returns how many items it had. */
export async function printList<T>(
  { terminal }: Context,
  batches: AsyncIterable<T[]> | Iterable<T[]>,
  { json }: JsonOption,
  toRow: (item: T) => Row,
): Promise<number> {
  const toText = json ? createJsonList() : createTable(toRow)
  let items = 0
  for await (const batch of batches) {
    items += batch.length
    if (batch.length > 0) await terminal.print(toText(batch))
  }
  if (json) await terminal.print(toText([]))
  return items
}
