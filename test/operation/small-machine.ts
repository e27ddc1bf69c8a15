// A small machine for a service: a limit of memory, and a disk of 16 MiB for its data folder, which a test fills or
// makes read-only.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rm, rmdir, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { SERVE, type ServiceProcess } from '../support/process.ts'

const execute = promisify(execFile)
const DISK_BYTES = 16 * 1_048_576
const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` }

/** With the files of the data folder. Null if the machine does not permit it. */
export async function createSmallDisk(dataDir: string, folder: string) {
  const [image, mountPoint] = [join(folder, 'image'), join(folder, 'disk')]
  await mkdir(mountPoint)
  await writeFile(image, '')
  await truncate(image, DISK_BYTES)
  // The mount ends with the service, because only its namespace has it. The copied index of SQLite's log has holes,
  // and the kernel kills a process that fills one on a full disk; the service makes another index while there is room.
  const script = `mount -o loop,errors=remount-ro ${image} ${mountPoint} && rm -f ${mountPoint}/*-shm && exec "$@"`
  const mounted = ['--mount', 'sh', '-c', script, 'sh']
  try {
    // A new index has holes only if blocks are smaller than pages of memory. So these are the hardest disks.
    await execute('mkfs.ext4', ['-q', '-b', '1024', '-m', '0', '-d', dataDir, image], { env })
    await execute('unshare', [...mounted, 'true'])
  } catch {
    return null
  }
  const filler = ({ pid }: ServiceProcess) => `/proc/${pid}/root${mountPoint}/filler`
  return {
    dataDir: mountPoint,
    /** Starts a service with this disk. */
    command: ['unshare', ...mounted, ...SERVE],
    // It ends with the error that the disk is full.
    fill: (service: ServiceProcess) =>
      execute('dd', ['if=/dev/zero', `of=${filler(service)}`]).catch(() => {}),
    makeRoom: (service: ServiceProcess) => rm(filler(service)),
    /** As the kernel does it after an error of the disk, while files are open. */
    makeReadOnly: ({ pid }: ServiceProcess) =>
      execute('nsenter', [
        ...['--target', String(pid), '--mount'],
        ...['mount', '-o', 'remount,abort', mountPoint],
      ]),
  }
}

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
