// The SQLite engine: one file, one connection, write-ahead log, every commit synced to disk.
import {
  CompiledQuery,
  type DatabaseConnection,
  Kysely,
  SqliteAdapter,
  SqliteDriver,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { type Engine, repeat } from '../sql/engine.ts'
import { run, type Step, type Steps } from '../sql/prepared.ts'
import type { Schema } from '../sql/schema.ts'
import { checkDeadline } from './deadline.ts'
import { isBusy, SqliteFile } from './file.ts'
import { groupCommits } from './group-commit.ts'
import { useToken } from './use-token.ts'

/** Longest that a starting process waits for others to migrate. */
const MIGRATION_TIMEOUT_MS = 30_000

export function openSqlite(file: string, operationTimeoutMs: number): Engine {
  const database = new SqliteFile(file)
  const db = openDatabase(database)
  const retrying = <T>(operation: () => Promise<T>) => repeat(operation, isBusy, operationTimeoutMs)
  const commitInGroup = groupCommits(db, database)
  const inTransaction: Engine['inTransaction'] = steps =>
    retrying(() => commitInGroup(runNow => runAtOnce(steps(), step => runNow(step.bind(db)))))
  /** Outside of a transaction. */
  const runAlone = (text: string) =>
    db.connection().execute(async () => {
      database.read({ name: '', sql: text, parameters: [] })
    })
  return {
    name: 'sqlite',
    db,
    retrying,
    // The transaction holds the write lock.
    migrating: (_onWait, step) =>
      repeat(
        () => db.transaction().execute(trx => step(trx, async () => {})),
        isBusy,
        MIGRATION_TIMEOUT_MS,
      ),
    inTransaction,
    useToken: rotation => inTransaction(() => useToken(rotation)),
    readPrepared: (statement, values) =>
      retrying(() => db.connection().execute(async () => database.read(statement(db, values)))),
    writePrepared: (statement, values) => inTransaction(() => run(statement, values)),
    // One by one: SQLite would take longer to read the rows from JSON, or to return them, than to store them.
    async insertRows(_trx, table, rows) {
      const columns = Object.keys(rows[0] ?? {})
      const insertion = database.prepare(`insert into ${table} (${columns.join(', ')})
        values (${columns.map(() => '?').join(', ')}) on conflict do nothing`)
      return rows.map(row => insertion.run(Object.values(row).map(toStored)).changes > 0)
    },
    // The transaction holds the write lock, so no other process purges.
    mayPurge: async () => true,
    emptyWriteAheadLog: () => runAlone('pragma wal_checkpoint(truncate)'),
    maintenance: {
      countConnections: async () => null,
      readClock: async () => null,
      readConnectionLimit: async () => null,
    },
    // Kysely closes the file only if it has used it.
    close: async () => database.end(),
  }
}

function runAtOnce<T>(steps: Steps<T>, rowsOf: (step: Step) => unknown[]): T {
  let next = steps.next()
  for (; !next.done; next = steps.next()) next.value.rows = rowsOf(next.value)
  return next.value
}

function toStored(value: unknown) {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : (value ?? null)
}

function openDatabase(database: SqliteFile): Kysely<Schema> {
  return new Kysely<Schema>({
    dialect: {
      createDriver: () => new ImmediateSqliteDriver(database),
      createAdapter: () => new TransactionalSqliteAdapter(),
      createQueryCompiler: () => new SqliteQueryCompiler(),
      createIntrospector: db => new SqliteIntrospector(db),
    },
  })
}

/** Takes the write lock first: a deferred transaction can fail when it turns from reading to writing. */
class ImmediateSqliteDriver extends SqliteDriver {
  readonly #database: SqliteFile

  constructor(database: SqliteFile) {
    super({ database })
    this.#database = database
  }

  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    checkDeadline()
    this.#database.checkPlace()
    try {
      await connection.executeQuery(CompiledQuery.raw('begin immediate'))
    } catch (error) {
      // It may have begun all the same. Left open, it would lock the file for good.
      this.#database.rollback()
      throw error
    }
  }

  /** Never fails: Kysely would report that failure instead of the first one. */
  override async rollbackTransaction(): Promise<void> {
    this.#database.rollback()
  }
}

/** The write lock of a migration's transaction makes other starting processes wait. */
class TransactionalSqliteAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}
