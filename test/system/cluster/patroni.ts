// Two PostgreSQL servers under Patroni with synchronous replication, and HAProxy in front of them.
import { existsSync, globSync } from 'node:fs'
import { chmod, chown, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { hasCode } from '../../../src/system/files.ts'
import { query } from '../../support/engines.ts'
import { freePort, UNPRIVILEGED } from '../../support/postgres-server.ts'
import { type RunningProcess, run } from '../../support/process.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'

/** In seconds, the shortest that every version of Patroni accepts. A dead primary is replaced after `ttl`. */
const TIMES = { ttl: 20, loop_wait: 1, retry_timeout: 3 }
const HEALTHY_WITHIN_MS = 120_000
const NAMES = ['a', 'b']
const IS_ROOT = process.getuid?.() === 0

type Place = { folder: string; etcdPort: number }
/** As Patroni's health checks name them; `sync` is the synchronous standby. */
type Role = 'primary' | 'sync'
type Signal = 'SIGKILL' | 'SIGSTOP'
export type Node = Awaited<ReturnType<typeof createNode>>
export type PatroniCluster = Awaited<ReturnType<typeof startPatroni>>

export async function startPatroni() {
  const folder = await makeTemporaryFolder('login-patroni-')
  if (IS_ROOT) {
    await chmod(folder, 0o755)
    await chown(folder, UNPRIVILEGED.uid, UNPRIVILEGED.gid)
  }
  const [etcdPort, peerPort, proxyPort] = [await freePort(), await freePort(), await freePort()]
  const etcd = runHere(folder, [
    ...['/usr/bin/etcd', '--data-dir', join(folder, 'etcd')],
    ...['--listen-client-urls', `http://127.0.0.1:${etcdPort}`],
    ...['--advertise-client-urls', `http://127.0.0.1:${etcdPort}`],
    ...['--listen-peer-urls', `http://127.0.0.1:${peerPort}`],
  ])
  const nodes = await Promise.all(NAMES.map(name => createNode(name, { folder, etcdPort })))
  const proxyFile = join(folder, 'haproxy')
  await writeFile(proxyFile, proxyConfiguration(proxyPort, nodes))
  const proxy = runHere(folder, ['/usr/sbin/haproxy', '-db', '-f', proxyFile])
  for (const node of nodes) node.start()

  async function find(role: Role): Promise<Node | null> {
    for (const node of nodes) if (await node.is(role)) return node
    return null
  }
  /** Waits until both servers run and commits wait for the standby. */
  async function healthy(): Promise<{ primary: Node; standby: Node }> {
    const deadline = performance.now() + HEALTHY_WITHIN_MS
    while (performance.now() < deadline) {
      const [primary, standby] = [await find('primary'), await find('sync')]
      if (primary && standby) return { primary, standby }
      await setTimeout(100)
    }
    throw new Error('the cluster did not become healthy in time')
  }
  async function stop(): Promise<void> {
    for (const node of nodes) await node.signal('SIGKILL')
    for (const { kill } of [etcd, proxy]) kill('SIGKILL')
    await Promise.all([etcd.exit, proxy.exit])
    // Processes that are being killed may still write.
    await rm(folder, { recursive: true, maxRetries: 10 })
  }
  return { nodes, server: `postgres://postgres@127.0.0.1:${proxyPort}/postgres`, healthy, stop }
}

async function createNode(name: string, { folder, etcdPort }: Place) {
  const [port, apiPort] = [await freePort(), await freePort()]
  const data = join(folder, name)
  const file = join(folder, `${name}.yml`)
  const [client = ''] = globSync('/usr/lib/postgresql/*/bin/pg_basebackup')
  const configuration = {
    scope: 'login',
    name,
    restapi: { listen: `127.0.0.1:${apiPort}`, connect_address: `127.0.0.1:${apiPort}` },
    etcd3: { host: `127.0.0.1:${etcdPort}` },
    bootstrap: {
      dcs: { ...TIMES, synchronous_mode: true },
      initdb: [{ encoding: 'UTF8' }, 'no-locale', { auth: 'trust' }],
    },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${port}`,
      data_dir: data,
      bin_dir: dirname(client),
      pgpass: join(folder, `${name}.pgpass`),
      pg_hba: ['local all all trust', 'host all,replication all 127.0.0.1/32 trust'],
      authentication: {
        superuser: { username: 'postgres' },
        replication: { username: 'replicator' },
      },
      use_pg_rewind: true,
      // Without it a copy begins only after the primary's next checkpoint, minutes later.
      basebackup: [{ checkpoint: 'fast' }],
      // Where rewinding is not possible, a former primary is copied from its successor.
      remove_data_directory_on_rewind_failure: true,
      remove_data_directory_on_diverged_timelines: true,
      parameters: { unix_socket_directories: folder, fsync: 'off' },
    },
  }
  // JSON is YAML, too.
  await writeFile(file, JSON.stringify(configuration))
  const startProcess = () => runHere(folder, ['/usr/bin/patroni', file])
  let patroni: RunningProcess
  const api = (path: string, request: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${apiPort}${path}`, { ...request, signal: AbortSignal.timeout(2_000) })
  return {
    name,
    /** The address of its PostgreSQL. */
    address: `127.0.0.1:${port}`,
    apiPort,
    start() {
      patroni = startProcess()
    },
    async is(role: Role): Promise<boolean> {
      const answer = await api(`/${role}`).catch(() => null)
      return answer?.status === 200
    },
    query: (statement: string) =>
      query(`postgres://postgres@127.0.0.1:${port}/postgres`, statement),
    /** To the primary: its standby takes over. */
    async switchOver(): Promise<void> {
      const request = { method: 'POST', body: JSON.stringify({ leader: name }) }
      await fetch(`http://127.0.0.1:${apiPort}/switchover`, request)
    },
    /** Reaches Patroni and all processes of PostgreSQL, as if it happened to their machine. */
    async signal(signal: Signal): Promise<void> {
      sendSignal([patroni.pid, ...(await findPostgres(data))], signal)
    },
    /**
     * After a SIGSTOP. PostgreSQL goes on as the primary that it was. Patroni starts again, as after a watchdog's
     * reset: Patroni 3.0 that just went on would take the lock back from its new holder, without asking.
     */
    async wake(): Promise<void> {
      sendSignal([patroni.pid], 'SIGKILL')
      // PostgreSQL has inherited its outputs, so `exit` would wait for both.
      while (existsSync(`/proc/${patroni.pid}`)) await setTimeout(10)
      sendSignal(await findPostgres(data), 'SIGCONT')
      patroni = startProcess()
    },
  }
}

function sendSignal(pids: number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal)
    } catch (error) {
      if (!hasCode(error, 'ESRCH')) throw error
    }
  }
}

/** The process ids of the server with this data folder; none if it does not run. */
async function findPostgres(data: string): Promise<number[]> {
  const read = (file: string) => readFile(file, 'utf8').catch(() => '')
  const [postmaster] = (await read(join(data, 'postmaster.pid'))).split('\n')
  // After a crash the file remains, and another process may have the number.
  if (!(await read(`/proc/${postmaster}/cmdline`)).includes(data)) return []
  const children = await read(`/proc/${postmaster}/task/${postmaster}/children`)
  return [postmaster, ...children.trim().split(' ')].map(Number)
}

/** Sends connections to the primary, and ends those of a server that is no longer the primary. */
function proxyConfiguration(port: number, nodes: Node[]): string {
  const servers = nodes.map(
    ({ name, address, apiPort }) => `  server ${name} ${address} check port ${apiPort}`,
  )
  return `defaults
  mode tcp
  timeout connect 1s
  timeout client 10m
  timeout server 10m
listen postgres
  bind 127.0.0.1:${port}
  option httpchk GET /primary
  timeout check 500ms
  default-server inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions
${servers.join('\n')}
`
}

function runHere(folder: string, command: string[]): RunningProcess {
  // Without the variable etcd refuses to start on this architecture.
  const env = { HOME: folder, ...(process.arch === 'arm64' && { ETCD_UNSUPPORTED_ARCH: 'arm64' }) }
  return run(env, { command, cwd: folder, identity: IS_ROOT ? UNPRIVILEGED : {} })
}
