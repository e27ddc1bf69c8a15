// The connections of a process to PostgreSQL: a pool of `pg` for each host of DATABASE_URL. A connection counts until
// the server has closed it, for at most 10 s: an operation whose time is up leaves its statement behind, and the server
// may work on it for longer.
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { DatabaseBusy } from '../../domain/store.ts'
import { TimeUp, within } from '../../time-limit.ts'
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

export type Lent = { client: pg.PoolClient; host: pg.Pool; isPooled: boolean }

type PoolOptions = {
  addresses: string[]
  /** Most connections to each host. */
  size: number
  /** Accept only a server that accepts writes and was not replaced by a newer primary. */
  mustBeWritable: boolean
  /** Called when an idle connection breaks; it has left the pool. */
  onConnectionLost: (error: Error) => void
  /** Longest that one operation may take. */
  operationTimeoutMs: number
}

export class Pool {
  /** When a statement was last answered, by `performance.now()`. */
  answeredAt = 0
  readonly #options: PoolOptions
  /** The one that was usable last comes first. */
  #hosts: pg.Pool[]
  readonly #sockets = new Set<Socket>()
  readonly #states = new WeakMap<pg.ClientBase, ServerState>()
  /** The newest one that this process has used. A promoted standby starts a new timeline. */
  #timeline = 0
  #hasConnected = false
  /** Why no server can be used now, although one may be soon. */
  #failure: unknown = null

  constructor(options: PoolOptions) {
    this.#options = options
    this.#hosts = options.addresses.map(connectionString => {
      const open = (client: pg.Client, connecting: Promise<unknown>) =>
        this.#open(host, client, connecting)
      const host: pg.Pool = new pg.Pool({
        connectionString,
        application_name: 'login-service',
        max: options.size,
        // For an attempt to connect, and for a place in the queue, from which an operation may go earlier.
        connectionTimeoutMillis: Math.max(SILENT_MS, options.operationTimeoutMs),
        keepAlive: true,
        keepAliveInitialDelayMillis: KEEPALIVE_DELAY_MS,
        stream: () => this.#openSocket(),
        // Not `onConnect`: a failed attempt must keep its place for a pause, or the next one would follow at once.
        Client: class extends pg.Client {
          override async connect(...[callback]: ((...errors: Error[]) => void)[]) {
            await open(this, super.connect()).then(() => callback?.(), callback)
            return this
          }
        },
      })
      return host.on('error', options.onConnectionLost)
    })
  }

  /** Rejects if no connection is free in time: with DatabaseBusy, if statements were answered meanwhile. */
  async take(waitMs: number): Promise<Lent> {
    const startedAt = performance.now()
    const deadline = startedAt + (this.#hasConnected ? waitMs : SILENT_MS)
    for (;;) {
      const taking = this.#takeFromAny()
      try {
        const leftMs = deadline - performance.now()
        const lent = await within(taking, leftMs, 'no connection to the database is free')
        this.#hasConnected = true
        this.#failure = null
        this.#hosts = [lent.host, ...this.#hosts.filter(host => host !== lent.host)]
        return lent
      } catch (error) {
        if (error instanceof TimeUp) {
          taking.then(
            ({ client }) => client.release(),
            () => {},
          )
          if (this.answeredAt > startedAt) throw new DatabaseBusy(error.message)
          throw this.#failure ?? error
        }
        if (!isTransient(error)) throw error
        this.#failure = error
      }
    }
  }

  count() {
    const sum = (number: (host: pg.Pool) => number) =>
      this.#hosts.reduce((total, host) => total + number(host), 0)
    return {
      used: sum(host => host.totalCount - host.idleCount),
      idle: sum(host => host.idleCount),
      waiting: sum(host => host.waitingCount),
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
    const hasIdle = first && first.idleCount > first.waitingCount
    if (first && (hasIdle || others.length === 0)) return this.#takeFrom(first)
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

  async #takeFrom(host: pg.Pool): Promise<Lent> {
    for (;;) {
      const client = await host.connect()
      const { isPooled = false, timeline = 0 } = this.#states.get(client) ?? {}
      const lent = { client, host, isPooled }
      if (timeline >= this.#timeline) return lent
      void this.discard(lent)
    }
  }

  /**
   * A connection that the service can use. While the server refuses them, the pool is no larger than what it has got, so
   * that operations wait for those connections, and one more is tried after each pause.
   */
  async #open(host: pg.Pool, client: pg.Client, connecting: Promise<unknown>): Promise<void> {
    const { size } = this.#options
    // An error of a connection that is in use fails the statement that waits for an answer.
    client.on('error', () => {})
    try {
      await connecting
      await this.#check(client)
      host.options.max = size
    } catch (error) {
      client.connection.stream.destroy()
      if (isTransient(error)) {
        await sleep(RETRY_PAUSE_MS)
        host.options.max = Math.max(1, host.totalCount - 1)
        setTimeout(() => {
          host.options.max = Math.min(size, host.totalCount + 1)
        }, RETRY_PAUSE_MS).unref()
      }
      throw error
    }
  }

  async #check(client: pg.Client): Promise<void> {
    const { mustBeWritable, operationTimeoutMs } = this.#options
    const state = await setUp(client, operationTimeoutMs, mustBeWritable)
    if (mustBeWritable && state.isReadOnly) {
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
