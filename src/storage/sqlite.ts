// The embedded engine: one file, one connection, write-ahead log, every commit synced to disk.
import { DatabaseSync, type StatementSync } from 'node:sqlite'
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
import { reserveInTransaction } from './throttle-rows.ts'

// Primary result codes, https://www.sqlite.org/rescode.html
const BUSY = 5
const LOCKED = 6
/** After these the connection may not see the file as it is now; a new one does. */
const LOST_FILE = new Set([8 /* READONLY */, 10 /* IOERR */, 13 /* FULL */, 14 /* CANTOPEN */])

export function openSqlite(file: string): Engine {
  const database = new SqliteFile(file)
  const db = new Kysely<Schema>({ dialect: new ImmediateSqliteDialect({ database }) })
  const engine: Engine = {
    name: 'sqlite',
    db,
    retrying: operation => repeat(operation, isBusy),
    reserveAttempt: (scopes, email, now) =>
      engine.retrying(() =>
        db.transaction().execute(trx => reserveInTransaction(trx, scopes, email, now)),
      ),
    readClock: async () => null,
  }
  return engine
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
  readonly #statements = new Map<string, StatementSync>()
  #connection: DatabaseSync | null = null
  #isLost = false

  constructor(file: string) {
    this.#file = file
  }

  prepare(sql: string): SqliteStatement {
    const statement = this.#watch(() => this.#prepareOnce(sql))
    return {
      reader: statement.columns().length > 0,
      all: parameters => this.#watch(() => statement.all(...toSqlite(parameters))),
      run: parameters => this.#watch(() => statement.run(...toSqlite(parameters))),
      iterate: parameters => statement.iterate(...toSqlite(parameters)),
    }
  }

  close(): void {
    this.#statements.clear()
    this.#connection?.close()
    this.#connection = null
  }

  #prepareOnce(sql: string): StatementSync {
    if (this.#isLost && !this.#connection?.isTransaction) this.close()
    this.#connection ??= this.#open()
    let statement = this.#statements.get(sql)
    if (!statement) {
      statement = this.#connection.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  #open(): DatabaseSync {
    // No busy timeout: it would stop the event loop; `retrying` waits instead.
    const connection = new DatabaseSync(this.#file, { timeout: 0 })
    try {
      connection.exec('pragma journal_mode = wal; pragma synchronous = full')
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

function toSqlite(parameters: readonly unknown[]) {
  return parameters.map(parameter => {
    if (parameter === null) return null
    if (typeof parameter === 'string' || typeof parameter === 'number') return parameter
    throw new TypeError(`cannot store a value of type ${typeof parameter}`)
  })
}

/** A deferred transaction fails at once when a reader turns writer: take the write lock first. */
class ImmediateSqliteDialect extends SqliteDialect {
  readonly #config: { database: SqliteDatabase }

  constructor(config: { database: SqliteDatabase }) {
    super(config)
    this.#config = config
  }

  override createDriver(): SqliteDriver {
    return new ImmediateSqliteDriver(this.#config)
  }

  override createAdapter(): SqliteAdapter {
    return new TransactionalSqliteAdapter()
  }
}

class ImmediateSqliteDriver extends SqliteDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }
}

/** Lets migrations run in one transaction, which is what keeps two starting processes apart. */
class TransactionalSqliteAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}
