// A disk of 16 MiB for the data folder of a service, which a test fills or makes read-only.
import { execFile } from 'node:child_process'
import { mkdir, rm, truncate, writeFile } from 'node:fs/promises'
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
