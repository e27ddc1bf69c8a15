// A limit of memory for a service.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SERVE } from '../support/process.ts'

/** Folders of control groups, and the file that limits the memory of one, in the two versions of Linux. */
const CGROUPS = [
  ['/sys/fs/cgroup/memory', 'memory.limit_in_bytes'],
  ['/sys/fs/cgroup', 'memory.max'],
] as const
/** What is left of 128 MiB for the heap of JavaScript. */
const HEAP_MIB = 48

/**
 * The command of a service with so much memory, and how it is limited: by a control group if the machine permits it,
 * which must be removed after the service; otherwise the heap alone.
 */
export async function createSmallMemory(mib: number) {
  for (const [folder, limit] of CGROUPS) {
    const group = join(folder, `login-${randomUUID()}`)
    if (await limitGroup(group, limit, mib)) {
      return {
        way: 'a control group',
        command: ['sh', '-c', `echo $$ > ${group}/cgroup.procs && exec "$@"`, 'sh', ...SERVE],
        remove: () => rmdir(group),
      }
    }
  }
  const [node = '', ...args] = SERVE
  return {
    way: `\`--max-old-space-size=${HEAP_MIB}\`, because no control group can be made`,
    command: [node, `--max-old-space-size=${HEAP_MIB}`, ...args],
    remove: async () => {},
  }
}

async function limitGroup(group: string, limit: string, mib: number): Promise<boolean> {
  const isMade = await mkdir(group).then(
    () => true,
    () => false,
  )
  if (!isMade) return false
  // An ordinary folder has none of these files, and neither has a group without the right to limit memory.
  const isLimited = existsSync(join(group, 'cgroup.procs')) && existsSync(join(group, limit))
  if (isLimited) await writeFile(join(group, limit), String(mib * 1_048_576))
  else await rmdir(group)
  return isLimited
}
