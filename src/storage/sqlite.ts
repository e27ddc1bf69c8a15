// The embedded engine: one file, one connection, write-ahead log, every commit synced to disk.
import { statSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import {
  CompiledQuery,
  type DatabaseConnection,
  Kysely,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  SqliteDriver,
  type SqliteStatement,
} from 'kysely'
import { type Engine, repeat } from './engine.ts'
import type { Schema } from './schema.ts'
import { reserveInTransaction } from './sqlite-reserve.ts'
import { createSettling, type Transact } from './sqlite-settle.ts'

/** Longest that a starting process waits for others to migrate. */
const MIGRATION_TIMEOUT_MS = 30_000

// Primary result codes, https://www.sqlite.org/rescode.html
const BUSY = 5
const LOCKED = 6
/** After these the connection may not see the file as it is now; a new one does. */
const LOST_FILE = new Set([8 /* READONLY */, 10 /* IOERR */, 13 /* FULL */, 14 /* CANTOPEN */])

export function openSqlite(file: string): Engine {
  const database = new SqliteFile(file)
  const db = new Kysely<Schema>({ dialect: new ImmediateSqliteDialect(database) })
  const retrying = <T>(operation: () => Promise<T>) => repeat(operation, isBusy)
  const transact: Transact = operation => retrying(() => db.transaction().execute(operation))
  return {
    name: 'sqlite',
    db,
    retrying,
    migrating: operation => repeat(() => operation(db), isBusy, MIGRATION_TIMEOUT_MS),
    attempts: {
      reserveAttempt: (scopes, email, now) =>
        transact(trx => reserveInTransaction(trx, scopes, email, now)),
      ...createSettling(transact),
    },
    // The write lock is alone.
    isAlone: async () => true,
    readClock: async () => null,
  }
}

function primaryCode(error: unknown): number | null {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : null
  return typeof code === 'number' ? code & 0xff : null
}

function isBusy(error: unknown): boolean {
  const code = primaryCode(error)
  return code === BUSY || code === LOCKED
}

/** node:sqlite in the shape that Kysely expects, opened again after the file was lost. */
class SqliteFile implements SqliteDatabase {
  readonly #file: string
  readonly #statements = new Map<string, { statement: StatementSync; reader: boolean }>()
  #connection: DatabaseSync | null = null
  /** Which file was opened, whatever has its name now. */
  #identity: string | null = null
  #isLost = false

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
   * Throws unless the open file is still the one of its name: what is written to a file that was
   * deleted or replaced is lost, and nobody else sees it.
   */
  checkPlace(): void {
    if (this.#connection && identityOf(this.#file) !== this.#identity) {
      throw new Error(`${this.#file} was moved or replaced: put it back, or restart the service`)
    }
  }

  /** SQLite may have rolled back by itself, as it does when a write fails; then nothing is left to do. */
  rollback(): void {
    if (!this.#connection?.isTransaction) return
    try {
      this.#connection.exec('rollback')
    } catch {
      // Closing rolls back as well. The error that led here is the one to be told.
      this.close()
    }
  }

  close(): void {
    this.#statements.clear()
    this.#connection?.close()
    this.#connection = null
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
    const location = pathToFileURL(this.#file)
    // Only the first time: a file that is gone later must not be followed by an empty one.
    location.searchParams.set('mode', this.#identity === null ? 'rwc' : 'rw')
    // No busy timeout: it would stop the event loop; `retrying` waits instead.
    const connection = new DatabaseSync(location, { timeout: 0 })
    try {
      connection.exec('pragma journal_mode = wal; pragma synchronous = full')
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
      if (LOST_FILE.has(primaryCode(error) ?? 0)) this.#isLost = true
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

/** A deferred transaction fails at once when a reader turns writer: take the write lock first. */
class ImmediateSqliteDialect extends SqliteDialect {
  readonly #database: SqliteFile

  constructor(database: SqliteFile) {
    super({ database })
    this.#database = database
  }

  override createDriver(): SqliteDriver {
    return new ImmediateSqliteDriver(this.#database)
  }

  override createAdapter(): SqliteAdapter {
    return new TransactionalSqliteAdapter()
  }
}

class ImmediateSqliteDriver extends SqliteDriver {
  readonly #database: SqliteFile

  constructor(database: SqliteFile) {
    super({ database })
    this.#database = database
  }

  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    this.#database.checkPlace()
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }

  /** Never fails: Kysely would report that failure in place of the one that led to it. */
  override async rollbackTransaction(): Promise<void> {
    this.#database.rollback()
  }
}

/** Lets migrations run in one transaction, which is what keeps two starting processes apart. */
class TransactionalSqliteAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}
