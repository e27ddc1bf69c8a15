// A bare Debian 12 in a container, with its own systemd, network and files. It leaves nothing behind but two empty
// cgroups.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { eventually } from '../../support/postgres-server.ts'
import { until } from '../../support/process.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'

const execute = promisify(execFile)

/** The address at which slirp4netns answers questions for names. */
const NAME_SERVER = '10.0.2.3'
/** A certificate authority that this machine's npm needs to reach the registry, if there is one. */
const CA_FILE = process.env.NODE_EXTRA_CA_CERTS
const CA_IN_MACHINE = '/etc/ssl/extra-ca.pem'
const LOCK = join(tmpdir(), 'login-machine.lock')
/** As long as another run may take. */
const LOCK_MS = 15 * 60_000

export async function startMachine() {
  if (process.getuid?.() !== 0) throw new Error('only root can boot a Debian in a container')
  const folder = await makeTemporaryFolder('login-machine-')
  const started: ChildProcess[] = []
  const remove = async () => {
    for (const child of started.reverse()) await end(child)
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const root = join(folder, 'root')
    await installDebian(root)
    const container = start('flock', [
      // Two machines at once would share their cgroups.
      ...['--no-fork', LOCK, 'systemd-nspawn', '--boot', '--console=pipe', '--private-network'],
      ...[`--directory=${root}`, `--machine=${basename(folder)}`],
      // The files stay as Debian has installed them.
      ...['--timezone=off', '--resolv-conf=off'],
      // Also without a systemd outside.
      ...['--register=no', '--keep-unit'],
    ])
    started.push(container)
    const leader = await findLeader(container)
    started.push(start('slirp4netns', ['--configure', '--disable-host-loopback', leader, 'tap0']))
    /** Runs these lines as root, and stops at the first that fails; rejects with everything that was printed. */
    const run = (script: string) => runIn(leader, script)
    await eventually(() => run('systemctl is-active multi-user.target; grep tap0 /proc/net/route'))
    return { root, run, remove }
  } catch (error) {
    await remove()
    throw error
  }
}

/** The smallest Debian that has apt, and what every installed machine has besides: systemd and CAs. */
async function installDebian(root: string): Promise<void> {
  await execute('mmdebstrap', [
    ...['--quiet', '--variant=apt', '--include=ca-certificates,systemd-sysv,dbus'],
    // The machine is thrown away: nothing has to be synced.
    '--dpkgopt=force-unsafe-io',
    ...['bookworm', root],
  ])
  await writeFile(join(root, 'etc/resolv.conf'), `nameserver ${NAME_SERVER}\n`)
  if (CA_FILE) await cp(CA_FILE, join(root, CA_IN_MACHINE))
}

function start(command: string, args: string[]): ChildProcess {
  return spawn(command, args, { stdio: ['ignore', 'ignore', 'inherit'] })
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  // A container that has not booted yet ignores the first signal, and ends at the second.
  const again = setInterval(() => child.kill('SIGTERM'), 10_000)
  await once(child, 'exit')
  clearInterval(again)
}

/** The process that is the first one inside the container. */
async function findLeader({ pid }: ChildProcess): Promise<string> {
  let leader = ''
  await until(async () => {
    // At first there is also a process that prepares the container, and then ends.
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
    for (const child of children.split(' ').filter(Boolean)) {
      const name = await readFile(`/proc/${child}/comm`, 'utf8').catch(() => '')
      if (name === 'systemd\n') leader = child
    }
    return leader !== ''
  }, LOCK_MS)
  return leader
}

function runIn(leader: string, script: string): Promise<string> {
  const inside = ['--mount', '--uts', '--ipc', '--net', '--pid', '--cgroup', '--root', '--wd']
  const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  const environment = ['HOME=/root', `PATH=${path}`, 'DEBIAN_FRONTEND=noninteractive']
  if (CA_FILE) environment.push(`NODE_EXTRA_CA_CERTS=${CA_IN_MACHINE}`)
  const args = ['--target', leader, ...inside, 'env', '-i', ...environment, 'sh', '-euxc', script]
  return new Promise((resolve, reject) =>
    execFile('nsenter', args, (error, stdout, stderr) =>
      error ? reject(new Error(`${error.message}\n${stdout}\n${stderr}`)) : resolve(stdout),
    ),
  )
}
