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

export type SmallMemory = {
  /** How the memory is limited, for the report. */
  way: string
  /** Starts a service within the limit. */
  command: string[]
  /** Must be called after the service has ended. */
  remove: () => Promise<void>
}

/** Makes a control group if the machine permits it; otherwise limits the heap alone. */
export async function createSmallMemory(mib: number): Promise<SmallMemory> {
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
  try {
    await mkdir(group)
  } catch {
    return false
  }
  // An ordinary folder has none of these files, and neither has a group without the right to limit memory.
  const isLimited = existsSync(join(group, 'cgroup.procs')) && existsSync(join(group, limit))
  if (isLimited) await writeFile(join(group, limit), String(mib * 1_048_576))
  else await rmdir(group)
  return isLimited
}
