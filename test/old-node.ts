// Makes Node report an older version until the launcher has started the pinned Node.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { PROJECT } from './process.ts'

export const LAUNCH = join(PROJECT, 'launch.cjs')

const system = process.platform === 'win32' ? 'win' : process.platform
const pinned = join(PROJECT, 'node_modules', `node-${system}-${process.arch}`)

/** Why tests that need the pinned Node are skipped (on macOS there is none), otherwise false. */
export const NO_PINNED_NODE = existsSync(pinned) ? false : `there is no ${pinned}`

/** Arguments that make Node run this code before the program. */
export function preload(code: string): string[] {
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`]
}

/** Arguments that make Node report version 20.19.0 and these other properties of `process`. */
export function oldNode(facts: Record<string, string> = {}): string[] {
  const versions = { node: '20.19.0' }
  const pretended = JSON.stringify({ versions, version: 'v20.19.0', ...facts })
  return preload(`if (!process.env.LAUNCHER_PID) {
    for (const [name, value] of Object.entries(${pretended})) {
      Object.defineProperty(process, name, { value })
    }
  }`)
}
