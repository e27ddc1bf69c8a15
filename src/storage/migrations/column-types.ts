// Parts of table definitions that the two engines spell differently.
import { type RawBuilder, sql } from 'kysely'
import type { EngineName } from '../sql/engine.ts'

export type ColumnTypes = {
  engine: EngineName
  uuid: { type: Sql; random: Sql; check: Check }
  flag: { type: Sql; true: Sql; check: Check }
  json: { type: Sql; check: Check }
  /** SQLite compares times as text, so its columns accept one format only, also from other programs. */
  time: Check
  now: Sql
  /** A primary key that counts up. */
  identity: Sql
  options: Sql
}
type Sql = RawBuilder<unknown>
type Check = (column: string) => Sql

const unchecked: Check = () => sql``

export const COLUMN_TYPES: Record<EngineName, ColumnTypes> = {
  postgres: {
    engine: 'postgres',
    uuid: { type: sql`uuid`, random: sql`gen_random_uuid()`, check: unchecked },
    flag: { type: sql`boolean`, true: sql`true`, check: unchecked },
    // Unlike jsonb, it keeps the order of the fields.
    json: { type: sql`json`, check: unchecked },
    time: () => sql`timestamptz`,
    now: sql`now()`,
    identity: sql`bigint generated always as identity primary key`,
    options: sql``,
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
    flag: {
      type: sql`integer`,
      true: sql`1`,
      check: column => sql`check (${sql.ref(column)} in (0, 1))`,
    },
    json: {
      type: sql`text`,
      // json_valid(null) is 0 before SQLite 3.45.
      check: column => sql`check (${sql.ref(column)} is null or json_valid(${sql.ref(column)}))`,
    },
    time: column =>
      sql`text check (${sql.ref(column)} glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9]Z')`,
    now: sql`(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))`,
    identity: sql`integer primary key`,
    options: sql`strict`,
  },
}
