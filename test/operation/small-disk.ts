// A disk of 16 MiB for the data folder of a service, which a test fills or makes read-only.
import { execFile } from 'node:child_process'
import { chmod, mkdir, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { SERVE, type ServiceProcess } from '../support/process.ts'

const execute = promisify(execFile)
const DISK_BYTES = 16 * 1_048_576
const PATH = `${process.env.PATH}:/usr/sbin:/sbin`

export type SmallDisk = {
  /** How the errors are made, for the report. */
  way: string
  dataDir: string
  /** Starts a service with this disk. */
  command: string[]
  fill: (service: ServiceProcess) => Promise<unknown>
  makeRoom: (service: ServiceProcess) => Promise<unknown>
  /** As the kernel does it after an error of the disk, while files are open. */
  makeReadOnly: (service: ServiceProcess) => Promise<unknown>
}

/** With the files of the data folder. Makes a file system if the machine permits it; otherwise injects errors. */
export async function createSmallDisk(dataDir: string, folder: string): Promise<SmallDisk> {
  const [image, mountPoint] = [join(folder, 'image'), join(folder, 'disk')]
  await mkdir(mountPoint)
  await writeFile(image, '')
  await truncate(image, DISK_BYTES)
  // The mount ends with the service, because only its namespace has it. The copied index of SQLite's log has holes,
  // and the kernel kills a process that fills one on a full disk; the service makes another index while there is room.
  const script = `mount -o loop,errors=remount-ro ${image} ${mountPoint} && rm -f ${mountPoint}/*-shm && exec "$@"`
  const mounted = ['unshare', '--mount', 'sh', '-c', script, 'sh']
  const [unshare = '', ...args] = mounted
  try {
    const env = { ...process.env, PATH }
    // A new index has holes only if blocks are smaller than pages of memory. So these are the hardest disks.
    await execute('mkfs.ext4', ['-q', '-b', '1024', '-m', '0', '-d', dataDir, image], { env })
    await execute(unshare, [...args, 'true'])
  } catch {
    return injectErrors(dataDir)
  }
  const filler = ({ pid }: ServiceProcess) => `/proc/${pid}/root${mountPoint}/filler`
  return {
    way: 'an ext4 file system of 16 MiB with blocks of 1 KiB, in a mount namespace',
    dataDir: mountPoint,
    command: [...mounted, ...SERVE],
    // It ends with the error that the disk is full.
    fill: service => execute('dd', ['if=/dev/zero', `of=${filler(service)}`]).catch(() => {}),
    makeRoom: service => rm(filler(service)),
    makeReadOnly: ({ pid }) =>
      execute('nsenter', [
        ...['--target', String(pid), '--mount'],
        ...['mount', '-o', 'remount,abort', mountPoint],
      ]),
  }
}

/** The errors of a limited file size and of a file without the permission to write. */
function injectErrors(dataDir: string): SmallDisk {
  const file = join(dataDir, 'login.db')
  const limitSize = ({ pid }: ServiceProcess, bytes: string) =>
    execute('prlimit', ['--pid', String(pid), `--fsize=${bytes}:`])
  // Root may write to every file unless it gives up these capabilities.
  const setpriv = ['setpriv', '--bounding-set=-dac_override,-dac_read_search', '--']
  return {
    way: 'injected, because no file system can be mounted: a limit of file sizes, a file without write permission',
    dataDir,
    command: process.getuid?.() === 0 ? [...setpriv, ...SERVE] : SERVE,
    fill: service => limitSize(service, '4096'),
    makeRoom: service => limitSize(service, 'unlimited'),
    async makeReadOnly(service) {
      await chmod(file, 0o444)
      // The service opens the file again after a write error.
      await limitSize(service, '4096')
      await service.login('unknown@example.com')
      await limitSize(service, 'unlimited')
    },
  }
}
