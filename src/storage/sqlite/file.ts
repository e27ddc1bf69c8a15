// The database file through node:sqlite: one connection, which is reopened after an error of the file.
import { statSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import type { SqliteDatabase, SqliteStatement } from 'kysely'
import type { BoundStatement } from '../sql/prepared.ts'

// Primary result codes, https://www.sqlite.org/rescode.html
const BUSY = 5
const LOCKED = 6
/** After these errors the connection may not see the current file; a new connection does. */
const LOST_FILE = new Set([8 /* READONLY */, 10 /* IOERR */, 14 /* CANTOPEN */])

export type RunBound = <Row>(statement: BoundStatement<Row>) => Row[]

/** Implements the interface that Kysely expects. */
export class SqliteFile implements SqliteDatabase {
  readonly #file: string
  readonly #statements = new Map<string, { statement: StatementSync; reader: boolean }>()
  #connection: DatabaseSync | null = null
  /** Device and inode of the file that was opened; null before. */
  #identity: string | null = null
  #isLost = false
  #isEnded = false

  constructor(file: string) {
    this.#file = file
  }

  prepare(sql: string): SqliteStatement {
    const { statement, reader } = this.#watch(() => this.#prepareOnce(sql))
    return {
      reader,
      all: parameters => this.#watch(() => statement.all(...toSqlite(parameters))),
      run: parameters => this.#watch(() => statement.run(...toSqlite(parameters))),
      iterate: parameters => statement.iterate(...toSqlite(parameters)),
    }
  }

  /**
   * Throws if the path no longer leads to the open file: data written to a file that was deleted or replaced
   * is lost, and no other process sees it.
   */
  checkPlace(): void {
    if (this.#connection && identityOf(this.#file) !== this.#identity) {
      throw new Error(`${this.#file} was moved or replaced: put it back, or restart the service`)
    }
  }

  /**
   * Runs the operations one after the other in one transaction, which is synced once. An operation that
   * throws is undone alone. No other transaction of this connection may be open. Synchronous: promises would
   * add a third to its cost.
   */
  transact<T>(operations: ((run: RunBound) => T)[]): PromiseSettledResult<T>[] {
    this.checkPlace()
    try {
      this.#all('begin immediate', [])
      const results = operations.map(operation => this.#attempt(operation))
      this.#all('commit', [])
      return results
    } catch (error) {
      this.rollback()
      throw error
    }
  }

  /** One statement that writes nothing. */
  read<Row>({ sql, parameters }: BoundStatement<Row>): Row[] {
    return this.#all(sql, parameters) as Row[]
  }

  #attempt<T>(operation: (run: RunBound) => T): PromiseSettledResult<T> {
    this.#all('savepoint operation', [])
    try {
      const value = operation(statement => this.read(statement))
      this.#all('release operation', [])
      return { status: 'fulfilled', value }
    } catch (reason) {
      // After an error of the file, SQLite may have rolled back the whole transaction.
      if (this.#isLost || !this.#connection?.isTransaction) throw reason
      this.#all('rollback to operation', [])
      this.#all('release operation', [])
      return { status: 'rejected', reason }
    }
  }

  /** Does nothing if SQLite has rolled back already, as it may when a write fails. */
  rollback(): void {
    if (!this.#connection?.isTransaction) return
    try {
      this.#connection.exec('rollback')
    } catch {
      // Closing rolls back as well. The caller reports the first error, not this one.
      this.close()
    }
  }

  close(): void {
    this.#statements.clear()
    this.#connection?.close()
    this.#connection = null
  }

  /** Closes the file for good. */
  end(): void {
    this.close()
    this.#isEnded = true
  }

  #all(sql: string, parameters: readonly unknown[]): unknown[] {
    return this.#watch(() => this.#prepareOnce(sql).statement.all(...toSqlite(parameters)))
  }

  #prepareOnce(sql: string) {
    if (this.#isLost && !this.#connection?.isTransaction) this.close()
    this.#connection ??= this.#open()
    let prepared = this.#statements.get(sql)
    if (!prepared) {
      const statement = this.#connection.prepare(sql)
      prepared = { statement, reader: statement.columns().length > 0 }
      this.#statements.set(sql, prepared)
    }
    return prepared
  }

  #open(): DatabaseSync {
    if (this.#isEnded) throw new Error('the database has been closed')
    const location = pathToFileURL(this.#file)
    // Creates the file only the first time: a file that is lost later must not be replaced by an empty one.
    const mode = this.#identity === null ? 'rwc' : 'rw'
    location.searchParams.set('mode', this.#file === ':memory:' ? 'memory' : mode)
    // No busy timeout: it would block the thread; `retrying` waits instead.
    const connection = new DatabaseSync(location, { timeout: 0, defensive: true })
    try {
      // A commit writes whole pages, of which each operation changes little. Deleted rows are overwritten with
      // zeros, so that the file does not keep them.
      connection.exec(`pragma page_size = 2048; pragma journal_mode = wal; pragma synchronous = full;
        pragma secure_delete = on`)
      this.#identity = identityOf(this.#file)
    } catch (error) {
      connection.close()
      throw error
    }
    this.#isLost = false
    return connection
  }

  #watch<T>(operation: () => T): T {
    try {
      return operation()
    } catch (error) {
      if (LOST_FILE.has(primaryCode(error))) this.#isLost = true
      throw error
    }
  }
}

function identityOf(file: string): string | null {
  const stats = statSync(file, { throwIfNoEntry: false })
  return stats ? `${stats.dev}:${stats.ino}` : null
}

function toSqlite(parameters: readonly unknown[]) {
  return parameters.map(parameter => {
    if (parameter === null) return null
    if (typeof parameter === 'string' || typeof parameter === 'number') return parameter
    throw new TypeError(`cannot store a value of type ${typeof parameter}`)
  })
}

/** 0 if it is not an error of SQLite. */
function primaryCode(error: unknown): number {
  return Object(error).errcode & 0xff
}

/** True if another connection holds a lock: the operation can be repeated. */
export function isBusy(error: unknown): boolean {
  const code = primaryCode(error)
  return code === BUSY || code === LOCKED
}
