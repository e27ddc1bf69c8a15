// The embedded engine: one file, one connection, write-ahead log, every commit synced to disk.
import {
  CompiledQuery,
  type DatabaseConnection,
  Kysely,
  SqliteAdapter,
  SqliteDialect,
  SqliteDriver,
} from 'kysely'
import { type Engine, repeat } from '../sql/engine.ts'
import type { Schema } from '../sql/schema.ts'
import { isBusy, SqliteFile } from './file.ts'
import { reserve } from './reserve.ts'
import { createSettling, type Transact } from './settle.ts'

/** Longest that a starting process waits for others to migrate. */
const MIGRATION_TIMEOUT_MS = 30_000

export function openSqlite(file: string, operationTimeoutMs: number): Engine {
  const database = new SqliteFile(file)
  const db = new Kysely<Schema>({ dialect: new ImmediateSqliteDialect(database) })
  const retrying = <T>(operation: () => Promise<T>) => repeat(operation, isBusy, operationTimeoutMs)
  // Whoever has the connection is alone with it.
  const transact: Transact = operation =>
    retrying(() =>
      db
        .connection()
        .execute(async () =>
          database.transact(run => operation((statement, values) => run(statement(db, values)))),
        ),
    )
  return {
    name: 'sqlite',
    db,
    retrying,
    migrating: operation => repeat(() => operation(db), isBusy, MIGRATION_TIMEOUT_MS),
    attempts: {
      reserveAttempt: (scopes, email, now) => transact(run => reserve(run, scopes, email, now)),
      ...createSettling(transact),
    },
    // The write lock is alone.
    isAlone: async () => true,
    readClock: async () => null,
    close: () => db.destroy(),
  }
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
