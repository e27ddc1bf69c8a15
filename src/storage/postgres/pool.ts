// The connections of a process to PostgreSQL. A connection counts until the server has closed it, for at most
// 10 s: an operation whose time is up leaves its statement behind, and the server may work on it for longer.
import { DatabaseBusy } from '../../domain/store.ts'
import { within } from '../../time-limit.ts'
import {
  CONNECT_TIMEOUT_MS,
  giveUp,
  Hosts,
  type HostsOptions,
  isTransient,
  type Pooled,
} from './hosts.ts'

/**
 * For the first connection, because no request waits yet and many instances may start at once; and for the operations
 * of commands, which have more time than those of requests.
 */
const LONG_CONNECT_TIMEOUT_MS = 10_000
const RETRY_PAUSE_MS = 100
const IDLE_TIMEOUT_MS = 10_000
/** The server has so long to close a connection. */
const CLOSE_TIMEOUT_MS = 1_000

type Waiter = {
  resolve: (pooled: Pooled) => void
  reject: (error: Error) => void
  timer: NodeJS.Timeout
}

type PoolOptions = Omit<HostsOptions, 'onClosed' | 'onError'> & {
  /** Called when an idle connection breaks; it has left the pool. */
  onConnectionLost: (error: Error) => void
  /** Longest that one operation may take. One with more time than a request waits longer for a connection. */
  operationTimeoutMs: number
}

export class Pool {
  /** When a statement was last answered, by `performance.now()`. */
  answeredAt = 0
  readonly #size: number
  readonly #busyWaitMs: number
  readonly #hosts: Hosts
  readonly #idle: Pooled[] = []
  readonly #waiting: Waiter[] = []
  #lent = 0
  #opening = 0
  #hasConnected = false
  #isEnded = false
  /** Why the last opening failed, if it is worth another try; set while openings are tried one by one. */
  #failure: Error | null = null
  #pause: NodeJS.Timeout | undefined

  constructor({ onConnectionLost, operationTimeoutMs, ...hosts }: PoolOptions) {
    this.#size = hosts.size
    this.#busyWaitMs = operationTimeoutMs - CONNECT_TIMEOUT_MS
    this.#hosts = new Hosts({
      ...hosts,
      onError: (pooled, error) => {
        if (this.#removeIdle(pooled)) onConnectionLost(error)
      },
      onClosed: pooled => {
        this.#removeIdle(pooled)
        this.#fill()
      },
    })
  }

  /** Rejects if no connection is free in time: with DatabaseBusy, if statements were answered meanwhile. */
  async take(): Promise<Pooled> {
    if (this.#isEnded) throw new Error('the pool is closed')
    const idle = this.#idle.at(-1)
    if (idle) {
      this.#removeIdle(idle)
      this.#lent++
      return idle
    }
    return new Promise((resolve, reject) => {
      const startedAt = performance.now()
      const giveUp = () => {
        const isInUse = this.#lent > 0 && !this.#failure
        if (isInUse && performance.now() - startedAt < this.#busyWaitMs) {
          waiter.timer = setTimeout(giveUp, CONNECT_TIMEOUT_MS)
          return
        }
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1)
        const message = 'timeout: no connection to the database is free'
        const isBusy = this.answeredAt > startedAt
        reject(isBusy ? new DatabaseBusy(message) : (this.#failure ?? new Error(message)))
      }
      const isRequest = this.#hasConnected && this.#busyWaitMs < LONG_CONNECT_TIMEOUT_MS
      const firstMs = isRequest ? CONNECT_TIMEOUT_MS : LONG_CONNECT_TIMEOUT_MS
      const waiter = { resolve, reject, timer: setTimeout(giveUp, firstMs) }
      this.#waiting.push(waiter)
      this.#fill()
    })
  }

  count() {
    return { used: this.#lent, idle: this.#idle.length, waiting: this.#waiting.length }
  }

  giveBack(pooled: Pooled): void {
    this.#lent--
    this.#add(pooled)
  }

  /** Takes back a connection that broke or must not be used again. */
  discard(pooled: Pooled): void {
    this.#lent--
    closeGracefully(pooled)
    this.#fill()
  }

  /**
   * Takes back a connection that still waits for an answer, because the operation's time is up. Its host may
   * hang: the next operation opens a connection, perhaps to another host, and takes no idle one.
   */
  abandon(pooled: Pooled, answer: Promise<unknown>): void {
    this.#lent--
    const close = () => closeGracefully(pooled)
    answer.then(close, close)
    giveUp(pooled)
    this.#closeIdle(({ host }) => host === pooled.host)
    this.#fill()
  }

  async end(): Promise<void> {
    this.#isEnded = true
    clearTimeout(this.#pause)
    for (const waiter of this.#waiting.splice(0)) {
      clearTimeout(waiter.timer)
      waiter.reject(new Error('the pool is closed'))
    }
    this.#closeIdle(() => true)
    await within(this.#hosts.allClosed(), CLOSE_TIMEOUT_MS, 'connections are still open').catch(
      () => this.#hosts.destroy(),
    )
  }

  #add(pooled: Pooled): void {
    const isSurplus = this.#lent + this.#idle.length >= this.#size
    if (isSurplus || this.#isEnded || this.#hosts.isReplaced(pooled)) {
      closeGracefully(pooled)
      return
    }
    const waiter = this.#waiting.shift()
    if (waiter) {
      clearTimeout(waiter.timer)
      this.#lent++
      waiter.resolve(pooled)
      return
    }
    this.#idle.push(pooled)
    pooled.idleTimer = setTimeout(() => {
      if (this.#removeIdle(pooled)) closeGracefully(pooled)
    }, IDLE_TIMEOUT_MS)
  }

  #closeIdle(mustClose: (pooled: Pooled) => boolean): void {
    for (const pooled of this.#idle.filter(mustClose)) {
      this.#removeIdle(pooled)
      closeGracefully(pooled)
    }
  }

  #removeIdle(pooled: Pooled): boolean {
    const index = this.#idle.indexOf(pooled)
    if (index === -1) return false
    this.#idle.splice(index, 1)
    clearTimeout(pooled.idleTimer)
    return true
  }

  /** Opens connections for the waiting operations, as far as there is room. */
  #fill(): void {
    if (this.#isEnded || this.#pause) return
    const most = Math.min(this.#waiting.length, this.#failure ? 1 : this.#size - this.#lent)
    while (this.#opening < most && this.#hosts.hasRoom()) {
      this.#opening++
      void this.#open()
    }
  }

  async #open(): Promise<void> {
    try {
      await this.#hosts.open(pooled => {
        this.#hasConnected = true
        this.#failure = null
        this.#add(pooled)
        this.#closeIdle(idle => this.#hosts.isReplaced(idle))
      })
    } catch (error) {
      if (!(error instanceof Error)) throw error
      if (isTransient(error)) this.#retryLater(error)
      else {
        const waiter = this.#waiting.shift()
        clearTimeout(waiter?.timer)
        waiter?.reject(error)
      }
    } finally {
      this.#opening--
      this.#fill()
    }
  }

  #retryLater(error: Error): void {
    this.#failure = error
    this.#pause ??= setTimeout(() => {
      this.#pause = undefined
      if (this.#waiting.length === 0) this.#failure = null
      this.#fill()
    }, RETRY_PAUSE_MS)
  }
}

/** The server ends its process; then the socket closes, and the connection no longer counts. */
function closeGracefully(pooled: Pooled): void {
  pooled.client.end().catch(() => {})
  setTimeout(() => {
    if (!pooled.socket.closed) giveUp(pooled)
  }, CLOSE_TIMEOUT_MS).unref()
}
