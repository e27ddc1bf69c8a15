// Second factors and recovery codes of users.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, column: ColumnTypes): Promise<void> {
  const { uuid, options, time, now } = column
  const add = (table: string, definition: string) =>
    sql`alter table ${sql.table(table)} add column ${sql.raw(definition)}`
  const guesses = 'failed_second_steps integer not null default 0 check (failed_second_steps >= 0)'
  const statements = [
    ...['users', 'unknown_user'].flatMap(table => [
      add(table, 'factors_version integer not null default 0'),
      add(table, guesses),
      add(table, 'code_offset_seconds integer'),
    ]),
    add('sessions', guesses),
    add('sessions', "amr text not null default 'pwd' check (length(amr) <= 50)"),

    sql`create table second_factors (
      id ${uuid.type} primary key default ${uuid.random} ${uuid.check('id')},
      user_id ${uuid.type} not null references users (id) on delete cascade,
      kind text not null check (kind in ('totp', 'passkey')),
      secret text not null check (length(secret) <= 2000),
      used_to ${time('used_to')},
      created_at ${time('created_at')} not null default ${now},
      last_used_at ${time('last_used_at')},
      name text check (length(name) <= 100),
      credential_id text check (length(credential_id) <= 1500),
      rp_id text check (length(rp_id) <= 253)
    ) ${options}`,
    sql`create unique index second_factors_credential on second_factors (user_id, credential_id)`,
    sql`create unique index second_factors_totp on second_factors (user_id) where kind = 'totp'`,

    sql`create table recovery_codes (
      digest text not null check (length(digest) = 64),
      user_id ${uuid.type} not null references users (id) on delete cascade,
      used_at ${time('used_at')},
      primary key (user_id, digest)
    ) ${options}`,
  ]
  for (const statement of statements) await statement.execute(db)
}
