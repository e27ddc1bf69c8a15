// What every command has at hand.
import { mkdir } from 'node:fs/promises'
import { type Config, loadConfig } from '../config.ts'
import { describeDatabase, openStore } from '../storage/open-store.ts'
import type { Store } from '../storage/store.ts'
import { Refusal, type Terminal } from './terminal.ts'

export type Context = {
  terminal: Terminal
  env: Record<string, string | undefined>
  clock: () => Date
}

export function configOf({ env, terminal }: Context): Config {
  const config = loadConfig(env)
  for (const warning of config.warnings) terminal.say(`Warning: ${warning}`)
  return config
}

/** Opens the configured database for one command; most need its tables to be there. */
export async function withStore<T>(
  context: Context,
  command: (store: Store, config: Config) => Promise<T>,
  { migrate = true } = {},
): Promise<T> {
  const config = configOf(context)
  await mkdir(config.dataDir, { recursive: true })
  const store = openStore(config.database)
  try {
    if (migrate) {
      await store.migrate().catch(error => {
        throw new Refusal(`${describeDatabase(config.database)} cannot be used: ${error.message}`)
      })
    }
    return await command(store, config)
  } finally {
    await store.close()
  }
}
