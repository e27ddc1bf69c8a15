// The connections of a process to PostgreSQL: a pool of `pg` for each host of DATABASE_URL. A connection counts until
// the server has closed it, for at most 10 s: an operation whose time is up leaves its statement behind, and the server
// may work on it for longer.
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { PostgresConfig } from '../../config/database.ts'
import { addressesOf, mustBeWritable } from '../../config/postgres-hosts.ts'
import { DatabaseBusy } from '../../domain/store.ts'
import { TimeUp, within } from '../../system/time-limit.ts'
import { type ServerState, setUp } from './settings.ts'

/** How long the first connection of a process is waited for, and how long a silent connection counts. */
const SILENT_MS = 10_000
/** How long a host is tried alone. A host that is down may not answer at all. */
const HEAD_START_MS = 200
const RETRY_PAUSE_MS = 100
const CLOSE_TIMEOUT_MS = 1_000
/** While a statement runs, its host is probed after this time, then every second: a dead one is noticed after 15 s. */
const KEEPALIVE_DELAY_MS = 5_000

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const TOO_MANY_CONNECTIONS = '53300'
const CANNOT_CONNECT_NOW = '57P03'

/** The server cannot be used now, but may be soon: it is full, starts, or is about to be promoted. */
class NotYetUsable extends Error {}

/** Opens no connection by itself: its limit is 0, except in `#grow`. */
class Host extends pg.Pool {
  /** How many connections are being opened, or were refused a moment ago. */
  opening = 0
  /** Why the last one could not be opened. */
  failure: Error | null = null
}

type Lent = { client: pg.PoolClient; host: Host; isPooled: boolean }

/** `poolSize` is for each host. */
export type PoolOptions = Omit<PostgresConfig, 'engine'> & {
  /** Called when an idle connection breaks; it has left the pool. */
  onConnectionLost: (error: Error) => void
  /** Longest that one operation may take. */
  operationTimeoutMs: number
}

export class Pool {
  /** When a statement was last answered, by `performance.now()`. */
  answeredAt = 0
  readonly #options: PoolOptions
  /** Whether to accept only a server that accepts writes and was not replaced by a newer primary. */
  readonly #mustBeWritable: boolean
  /** The one that was usable last comes first. */
  #hosts: Host[]
  readonly #sockets = new Set<Socket>()
  readonly #states = new WeakMap<pg.ClientBase, ServerState>()
  /** The newest one that this process has used. A promoted standby starts a new timeline. */
  #timeline = 0
  #hasConnected = false
  /** How many operations wait for a connection. The queue of a host also has those that went away. */
  #waiting = 0

  constructor(options: PoolOptions) {
    this.#options = options
    this.#mustBeWritable = mustBeWritable(options.url)
    this.#hosts = addressesOf(options.url).map(connectionString => {
      const host = new Host({
        connectionString,
        application_name: 'login-service',
        // For opening a connection, and for a place in the queue: longer than any operation waits.
        connectionTimeoutMillis: SILENT_MS + options.operationTimeoutMs,
        pipeline: true,
        keepAlive: true,
        keepAliveInitialDelayMillis: KEEPALIVE_DELAY_MS,
        stream: () => this.#openSocket(),
        onConnect: client => this.#check(client),
      })
      host.options.max = 0
      const grow = () => this.#grow(host).catch(() => {})
      return host.on('error', options.onConnectionLost).on('remove', grow)
    })
  }

  /** Rejects if no connection is free in time: with DatabaseBusy, if statements were answered meanwhile. */
  async take(waitMs: number): Promise<Lent> {
    const startedAt = performance.now()
    const deadline = startedAt + (this.#hasConnected ? waitMs : SILENT_MS)
    for (;;) {
      this.#waiting++
      const taking = this.#takeFromAny()
      try {
        const leftMs = deadline - performance.now()
        const lent = await within(taking, leftMs, 'no connection to the database is free')
        this.#hasConnected = true
        this.#hosts = [lent.host, ...this.#hosts.filter(host => host !== lent.host)]
        return lent
      } catch (error) {
        if (error instanceof TimeUp) {
          taking.then(
            ({ client }) => client.release(),
            () => {},
          )
          if (this.answeredAt > startedAt) throw new DatabaseBusy(error.message)
          const failures = this.#hosts.flatMap(({ failure }) => failure ?? [])
          throw failures.length === this.#hosts.length ? joined(failures) : error
        }
        if (!isTransient(error)) throw error
      } finally {
        this.#waiting--
      }
    }
  }

  count() {
    const sum = (number: (host: Host) => number) =>
      this.#hosts.reduce((total, host) => total + number(host), 0)
    return {
      used: sum(host => host.totalCount - host.idleCount),
      idle: sum(host => host.idleCount),
      waiting: this.#waiting,
    }
  }

  /**
   * Takes back a connection that must not be used again. `late` is the answer that did not come in time: its host may
   * hang, so the next operation tries another one first.
   */
  async discard({ client, host }: Lent, late?: Promise<unknown>): Promise<void> {
    if (late) this.#hosts = [...this.#hosts.filter(other => other !== host), host]
    const closing = Promise.allSettled([late]).then(() => client.end())
    await within(closing, SILENT_MS, 'the connection is still open').catch(() =>
      client.connection.stream.destroy(),
    )
    client.release(true)
  }

  async end(): Promise<void> {
    const ending = Promise.all(this.#hosts.map(host => host.end()))
    await within(ending, CLOSE_TIMEOUT_MS, 'connections are still open').catch(() => {})
    for (const socket of this.#sockets) socket.destroy()
  }

  #openSocket(): Socket {
    const socket = new Socket()
    this.#sockets.add(socket)
    return socket.once('close', () => this.#sockets.delete(socket))
  }

  /** Tries the hosts, each with a head start before the next one. A connection that comes late stays in its pool. */
  async #takeFromAny(): Promise<Lent> {
    const [first, ...others] = this.#hosts
    if (first && (hasIdle(first) || others.length === 0)) return this.#takeFrom(first)
    const attempts: Promise<Lent>[] = []
    for (const host of this.#hosts) {
      const attempt = this.#takeFrom(host)
      attempts.push(attempt)
      if (attempts.length === this.#hosts.length) break
      const isTaken = attempt.then(
        () => true,
        () => false,
      )
      if (await Promise.race([isTaken, sleep(HEAD_START_MS, false, { ref: false })])) break
    }
    let taken: Lent | undefined
    try {
      taken = await Promise.any(attempts)
      return taken
    } catch (error) {
      throw error instanceof AggregateError ? joined(error.errors) : error
    } finally {
      for (const attempt of attempts) {
        attempt.then(lent => lent === taken || lent.client.release()).catch(() => {})
      }
    }
  }

  async #takeFrom(host: Host): Promise<Lent> {
    for (;;) {
      const isIdle = hasIdle(host)
      const taking = host.connect()
      // It also fails if a connection cannot be opened.
      if (!isIdle) {
        await Promise.race([taking, this.#grow(host).then(() => taking)]).catch(error => {
          taking.then(client => client.release()).catch(() => {})
          throw error
        })
      }
      const client = await taking
      const { isPooled = false, timeline = 0 } = this.#states.get(client) ?? {}
      const lent = { client, host, isPooled }
      if (timeline >= this.#timeline) return lent
      void this.discard(lent)
    }
  }

  /**
   * Opens a connection, if one is missing and there is room. The operation that has waited longest gets it: `pg.Pool`
   * would let an operation wait for the connection that is opened for it, even if another one becomes free. While the
   * server refuses connections, one is tried at a time, with pauses.
   */
  async #grow(host: Host): Promise<void> {
    // By then the pool has lent what was idle.
    await new Promise<void>(resolve => process.nextTick(resolve))
    const most = isTransient(host.failure) ? 1 : this.#waiting
    const missing = Math.min(most, this.#waiting, host.waitingCount)
    const isFull = host.totalCount >= this.#options.poolSize
    if (host.opening >= missing || host.idleCount > 0 || isFull) return
    host.opening++
    host.options.max = Infinity
    const opening = host.connect()
    host.options.max = 0
    try {
      const client = await opening
      client.release()
      host.opening--
      host.failure = null
    } catch (error) {
      host.failure = error as Error
      if (isTransient(error)) {
        setTimeout(() => {
          host.opening--
          this.#grow(host).catch(() => {})
        }, RETRY_PAUSE_MS).unref()
      } else host.opening--
      throw error
    }
  }

  async #check(client: pg.ClientBase): Promise<void> {
    // An error of a connection that is in use fails the statement that waits for an answer.
    client.on('error', () => {})
    const settingUp = setUp(client, this.#options.operationTimeoutMs, this.#mustBeWritable)
    const state = await within(settingUp, SILENT_MS, 'the database does not answer')
    if (this.#mustBeWritable && state.isReadOnly) {
      throw new NotYetUsable('the server does not accept writes')
    }
    if (state.timeline < this.#timeline) {
      throw new NotYetUsable(
        `the server is on timeline ${state.timeline}, but this process has used timeline ${this.#timeline}: a former primary`,
      )
    }
    this.#timeline = state.timeline
    this.#states.set(client, state)
  }
}

/** Whether a connection is idle that no other operation is about to get. */
function hasIdle({ idleCount, waitingCount }: Host): boolean {
  return idleCount > waitingCount
}

function isTransient(error: unknown): boolean {
  if (error instanceof NotYetUsable) return true
  return (
    error instanceof pg.DatabaseError &&
    (error.code === TOO_MANY_CONNECTIONS || error.code === CANNOT_CONNECT_NOW)
  )
}

/** One error for the errors of all hosts. */
function joined(errors: (Error & { code?: string })[]): Error {
  const message = errors.map(error => error.message || error.code).join('; ')
  return errors.some(isTransient) ? new NotYetUsable(message) : new Error(message)
}
