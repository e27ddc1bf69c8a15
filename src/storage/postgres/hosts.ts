// Opens connections to the host that accepts writes, out of those that DATABASE_URL names.
import { once } from 'node:events'
import { connect, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { within } from '../../time-limit.ts'

/** Longest that an opening may take before a request fails. */
export const CONNECT_TIMEOUT_MS = 1_000
/** How long a host is tried alone. A host that is down may not answer at all. */
const HEAD_START_MS = 200
/** Longest that a connection counts without an answer: a proxy or a firewall on the way may have lost it. */
const LOST_AFTER_MS = 10_000
/** While a statement runs, its host is probed after this time, then every second: a dead one is noticed after 15 s. */
const KEEPALIVE_DELAY_MS = 5_000

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const TOO_MANY_CONNECTIONS = '53300'
const CANNOT_CONNECT_NOW = '57P03'

/** The server cannot be used now, but may be soon: it is full, starts, or is about to be promoted. */
class NotYetUsable extends Error {}

export type Pooled = {
  client: pg.Client
  socket: Socket
  host: Host
  /** 0 if it was not asked for. */
  timeline: number
  isBroken: boolean
  /** Closes an idle connection after a while. */
  idleTimer?: NodeJS.Timeout | undefined
}

type Host = {
  config: pg.ClientConfig
  /** Connections whose socket is not closed: each may have a process at the server. */
  open: Set<Socket>
}

export type HostsOptions = {
  configs: pg.ClientConfig[]
  /** Accept only a server that accepts writes and was not replaced by a newer primary. */
  mustBeWritable: boolean
  /** The newest timeline that this process has used. */
  newestTimeline: { value: number }
  /** Most connections to each host. */
  size: number
  onClosed: (pooled: Pooled) => void
  onError: (pooled: Pooled, error: Error) => void
}

export class Hosts {
  readonly #options: HostsOptions
  /** The one that was usable last comes first. */
  #hosts: Host[]

  constructor(options: HostsOptions) {
    this.#options = options
    this.#hosts = options.configs.map(config => ({ config, open: new Set() }))
  }

  hasRoom(): boolean {
    return this.#hosts.some(host => this.#isFree(host))
  }

  /** A promoted standby starts a new timeline. A server on an older one was replaced. */
  isReplaced({ timeline }: Pooled): boolean {
    return timeline < this.#options.newestTimeline.value
  }

  /**
   * Tries the hosts, each with a head start before the next one, and hands over each connection that
   * opens, also a late one. Resolves after the first.
   */
  async open(onOpen: (pooled: Pooled) => void): Promise<void> {
    const startedAt = performance.now()
    const attempts: Promise<void>[] = []
    for (const host of this.#hosts) {
      if (!this.#isFree(host)) continue
      const attempt = this.#connect(host).then(pooled => {
        this.#hosts = [host, ...this.#hosts.filter(other => other !== host)]
        onOpen(pooled)
      })
      attempts.push(attempt)
      const opened = attempt.then(
        () => true,
        () => false,
      )
      if (await Promise.race([opened, sleep(HEAD_START_MS, false, { ref: false })])) return
    }
    const leftMs = startedAt + CONNECT_TIMEOUT_MS - performance.now()
    await within(Promise.any(attempts), leftMs, 'the database does not answer').catch(error => {
      throw error instanceof AggregateError ? joined(error.errors) : new NotYetUsable(error.message)
    })
  }

  destroy(): void {
    for (const socket of this.#sockets()) socket.destroy()
  }

  async allClosed(): Promise<void> {
    await Promise.all(
      this.#sockets().map(socket => new Promise(resolve => socket.once('close', resolve))),
    )
  }

  #sockets(): Socket[] {
    return this.#hosts.flatMap(({ open }) => [...open])
  }

  #isFree({ open }: Host): boolean {
    return open.size < this.#options.size
  }

  async #connect(host: Host): Promise<Pooled> {
    const { onClosed, onError, mustBeWritable } = this.#options
    const socket = new Socket()
    const client = new pg.Client({
      ...host.config,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEPALIVE_DELAY_MS,
      stream: () => socket,
    })
    const pooled: Pooled = { client, socket, host, timeline: 0, isBroken: false }
    host.open.add(socket)
    socket.once('close', () => {
      host.open.delete(socket)
      onClosed(pooled)
    })
    client.on('error', error => {
      pooled.isBroken = true
      onError(pooled, error)
    })
    const timer = setTimeout(() => {
      // Before TCP is connected the server has no process for it. After that it may have one.
      if (socket.connecting) socket.destroy(new NotYetUsable('timeout: the host does not answer'))
      else void closeIfUnreachable(pooled)
    }, CONNECT_TIMEOUT_MS)
    const lostTimer = setTimeout(
      () => socket.destroy(new NotYetUsable('timeout: the server does not answer')),
      LOST_AFTER_MS,
    )
    try {
      await client.connect()
      if (mustBeWritable) await this.#check(pooled)
      return pooled
    } catch (error) {
      client.end().catch(() => {})
      throw withAdvice(error)
    } finally {
      clearTimeout(timer)
      clearTimeout(lostTimer)
    }
  }

  async #check(pooled: Pooled): Promise<void> {
    const { rows } = await pooled.client.query(READ_STATE)
    const { is_read_only: isReadOnly, timeline } = rows[0]
    if (isReadOnly) throw new NotYetUsable('the server does not accept writes')
    pooled.timeline = timeline
    if (this.isReplaced(pooled)) {
      throw new NotYetUsable(
        `the server is on timeline ${timeline}, but this process has used timeline ${this.#options.newestTimeline.value}: a former primary`,
      )
    }
    this.#options.newestTimeline.value = timeline
  }
}

/** Every role may call these functions. The name of a WAL file begins with the timeline. */
const READ_STATE = `
  select current_setting('transaction_read_only') = 'on' as is_read_only,
    case when pg_is_in_recovery() then 0
      else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end as timeline`

/** For a connection that is not used again: it counts until the server has closed it, or has probably lost it. */
export function giveUp(pooled: Pooled): void {
  void closeIfUnreachable(pooled)
  setTimeout(() => pooled.socket.destroy(), LOST_AFTER_MS).unref()
}

/** Closes a connection if its host cannot be reached. If it can be, the server may still have the connection. */
async function closeIfUnreachable({ client, socket }: Pooled): Promise<void> {
  const { host, port } = client
  if (host.startsWith('/')) return
  const probe = connect({ host, port })
  await within(once(probe, 'connect'), CONNECT_TIMEOUT_MS, 'the host does not answer').catch(
    error => socket.destroy(error),
  )
  probe.destroy()
}

/** PgBouncer refuses the settings that the service sends, unless it is told that a pooler is there. */
function withAdvice(error: unknown): unknown {
  if (error instanceof Error && error.message.startsWith('unsupported startup parameter')) {
    error.message +=
      '. If this is PgBouncer in transaction mode, set DATABASE_POOLER=transaction; in session mode, add options to its ignore_startup_parameters.'
  }
  return error
}

export function isTransient(error: unknown): boolean {
  if (error instanceof NotYetUsable) return true
  return (
    error instanceof pg.DatabaseError &&
    (error.code === TOO_MANY_CONNECTIONS || error.code === CANNOT_CONNECT_NOW)
  )
}

/** One error for the errors of all hosts. */
function joined(errors: (Error & { code?: string })[]): Error {
  const [first] = errors
  if (first && errors.length === 1) return first
  const message = errors.map(error => error.message || error.code).join('; ')
  return errors.some(isTransient) ? new NotYetUsable(message) : new Error(message)
}
