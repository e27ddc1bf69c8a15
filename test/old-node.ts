// A Node that takes itself for an older one until it has started the pinned one: on any machine.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { PROJECT } from './process.ts'

export const LAUNCH = join(PROJECT, 'launch.cjs')

const system = process.platform === 'win32' ? 'win' : process.platform
const pinned = join(PROJECT, 'node_modules', `node-${system}-${process.arch}`)

/** Why a test that needs the pinned Node is skipped, as on macOS; false where there is one. */
export const NO_PINNED_NODE = existsSync(pinned) ? false : `there is no ${pinned}`

/** Node's arguments that run this code first. */
export function preload(code: string): string[] {
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`]
}

/** Node's arguments for an older one; it may differ in more than its version. */
export function oldNode(facts: Record<string, string> = {}): string[] {
  const versions = { node: '20.19.0' }
  const pretended = JSON.stringify({ versions, version: 'v20.19.0', ...facts })
  return preload(`if (!process.env.LAUNCHER_PID) {
    for (const [name, value] of Object.entries(${pretended})) {
      Object.defineProperty(process, name, { value })
    }
  }`)
}
