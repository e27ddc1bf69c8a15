// What `npm ci --omit=dev` installs: how many packages, and how large they are.
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'

type Lock = { packages: Record<string, { dev?: boolean; devOptional?: boolean }> }

const PROJECT = join(import.meta.dirname, '..')
const MIB = 2 ** 20

/** Packages for other platforms are in the lock file, but not installed. */
export async function measureProductionTree() {
  const { packages }: Lock = JSON.parse(await readFile(join(PROJECT, 'package-lock.json'), 'utf8'))
  const folders = Object.keys(packages).filter(path => path !== '' && !packages[path]?.dev)
  const sizes: { name: string; bytes: number }[] = []
  for (const folder of folders) {
    const bytes = await sizeOf(join(PROJECT, folder))
    if (bytes !== null) sizes.push({ name: folder.replace(/^.*node_modules\//, ''), bytes })
  }
  const mib = (parts: typeof sizes) => parts.reduce((sum, { bytes }) => sum + bytes, 0) / MIB
  const isNode = ({ name }: { name: string }) => /^node-\w+-\w+$/.test(name)
  return {
    packages: sizes.length,
    mib: mib(sizes),
    nodeMib: mib(sizes.filter(isNode)),
  }
}

/** Of all files in a package, without the packages below it; null if it is not installed. */
async function sizeOf(folder: string): Promise<number | null> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => null)
  if (entries === null) return null
  const sizes = await Promise.all(
    entries
      .filter(({ name }) => name !== 'node_modules')
      .map(entry => {
        const path = join(folder, entry.name)
        return entry.isDirectory() ? sizeOf(path) : stat(path).then(({ size }) => size)
      }),
  )
  return sizes.reduce((sum: number, size) => sum + (size ?? 0), 0)
}
