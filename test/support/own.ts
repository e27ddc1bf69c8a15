// What a test or a suite starts, and what is ended after it.
import { rm } from 'node:fs/promises'
import { after } from 'node:test'
import { makeTemporaryFolder } from './temporary-folder.ts'

type Ended = { stop: () => Promise<unknown> } | { remove: () => Promise<unknown> }

/** Ends it after the calling test or suite. Not in a `before` hook, which would end it at once. */
export async function own<Started extends Ended>(starting: Promise<Started>): Promise<Started> {
  const started = await starting
  after(() => ('stop' in started ? started.stop() : started.remove()))
  return started
}

/** Removed after the calling test or suite. */
export async function ownFolder(prefix = 'login-'): Promise<string> {
  const folder = await makeTemporaryFolder(prefix)
  after(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Calls it so many times at once, with 0, 1 … */
export function inParallel<T>(times: number, call: (index: number) => T): Promise<Awaited<T>[]> {
  return Promise.all(Array.from({ length: times }, (_, index) => call(index)))
}

/** The names of the events, in order. */
export function eventsOf(lines: { event?: unknown }[]): unknown[] {
  return lines.map(({ event }) => event)
}

/** The lines that tell of a fault. */
export function faultsIn({ logged }: { logged: () => Record<string, unknown>[] }) {
  return logged().filter(({ level }) => level === 'error' || level === 'fatal')
}
