// Parts of table definitions that the two engines spell differently.
import { type RawBuilder, sql } from 'kysely'
import type { EngineName } from '../sql/engine.ts'

export type ColumnTypes = {
  engine: EngineName
  uuid: { type: Sql; random: Sql; check: Check }
  time: { type: Sql; now: Sql }
  flag: { type: Sql; true: Sql; false: Sql; check: Check }
  json: { type: Sql; check: Check }
  /** A primary key that counts up. */
  identity: Sql
  /** SQLite compares times as text, so its columns accept one format only, also from other programs. */
  isTime: Check
  options: Sql
  /** The statements that create a trigger: after an update of the column, if `when`, it runs `then`. */
  trigger: (name: string, on: Changed, when: string, then: string) => Sql[]
  /** The statements that make every change or removal of a row fail. */
  appendOnly: (table: string) => Sql[]
  /** True if the column has one of the values that a query selects; an index finds each value. */
  isAmong: (column: string, query: string) => string
}
type Sql = RawBuilder<unknown>
type Changed = { table: string; column: string }
type Check = (column: string) => Sql

const unchecked: Check = () => sql``

export const COLUMN_TYPES: Record<EngineName, ColumnTypes> = {
  postgres: {
    engine: 'postgres',
    uuid: { type: sql`uuid`, random: sql`gen_random_uuid()`, check: unchecked },
    time: { type: sql`timestamptz`, now: sql`now()` },
    flag: { type: sql`boolean`, true: sql`true`, false: sql`false`, check: unchecked },
    // Unlike jsonb, it keeps the order of the fields.
    json: { type: sql`json`, check: unchecked },
    identity: sql`bigint generated always as identity primary key`,
    isTime: unchecked,
    options: sql``,
    trigger: (name, { table, column }, when, then) => [
      sql.raw(`create function ${name}() returns trigger language plpgsql as
        $$ begin ${then}; return null; end $$`),
      sql.raw(`create trigger ${name} after update of ${column} on ${table}
        for each row when (${when}) execute function ${name}()`),
    ],
    appendOnly: table => [
      sql.raw(`create function refuse_changes_of_${table}() returns trigger language plpgsql as
        $$ begin raise exception '${table} is append-only'; end $$`),
      sql.raw(`create trigger ${table}_append_only before update or delete or truncate on ${table}
        for each statement execute function refuse_changes_of_${table}()`),
    ],
    isAmong: (column, query) => `${column} = any (array(${query}))`,
  },
  sqlite: {
    engine: 'sqlite',
    uuid: {
      type: sql`text`,
      random: sql`(lower(
        hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a' ||
        substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))`,
      check: column => sql`check (length(${sql.ref(column)}) = 36)`,
    },
    time: { type: sql`text`, now: sql`(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))` },
    flag: {
      type: sql`integer`,
      true: sql`1`,
      false: sql`0`,
      check: column => sql`check (${sql.ref(column)} in (0, 1))`,
    },
    json: {
      type: sql`text`,
      // json_valid(null) is 0 before SQLite 3.45.
      check: column => sql`check (${sql.ref(column)} is null or json_valid(${sql.ref(column)}))`,
    },
    identity: sql`integer primary key`,
    isTime: column =>
      sql`check (${sql.ref(column)} glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9]Z')`,
    options: sql`strict`,
    trigger: (name, { table, column }, when, then) => [
      sql.raw(`create trigger ${name} after update of ${column} on ${table}
        for each row when ${when} begin ${then}; end`),
    ],
    appendOnly: table =>
      ['update', 'delete'].map(change =>
        sql.raw(`create trigger ${table}_refuses_${change} before ${change} on ${table}
          begin select raise(abort, '${table} is append-only'); end`),
      ),
    isAmong: (column, query) => `${column} in (${query})`,
  },
}
