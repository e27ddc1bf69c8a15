// A simple table of users for the alternatives, filled for the comparison.
import pg from 'pg'

/** Creates and fills the table, and resolves when it can be used. */
export async function connectUsersTable(): Promise<pg.Pool> {
  const { DATABASE_URL, PASSWORD_HASH, USERS } = process.env
  const pool = new pg.Pool({ connectionString: DATABASE_URL })
  await pool.query(`create table if not exists users (
    id uuid primary key default gen_random_uuid(), email text not null unique, password_hash text not null)`)
  await pool.query(
    `insert into users (email, password_hash)
      select 'user' || (2 * i) || '@example.com', $1 from generate_series(0, $2::int - 1) as i
      on conflict do nothing`,
    [PASSWORD_HASH, USERS],
  )
  return pool
}
