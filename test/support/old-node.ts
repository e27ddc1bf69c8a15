// Older versions of Node: the machine's own, and a Node that reports one until the launcher has started the pinned Node.
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { PROJECT } from './process.ts'

/** The machine's own Node, which may be older than the one that runs the tests; that one if there is no other. */
export function findMachineNode(): string {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const files = folders
    .filter(folder => !folder.includes('node_modules'))
    .map(folder => join(folder, 'node'))
  return files.find(file => existsSync(file)) ?? process.execPath
}

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
