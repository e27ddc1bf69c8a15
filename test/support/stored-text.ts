// Reads a whole database as text, to search it for what it must not hold.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { TestDatabase } from './engines.ts'

/**
 * Everything that the files of SQLite hold; of PostgreSQL, every row of every table as text. pg_dump, which the package of
 * the tests' server does not have, writes the same rows (by COPY, which formats values by the same functions).
 */
export async function storedText({ config, rows }: TestDatabase): Promise<string> {
  if (config.engine === 'sqlite') {
    const files = ['', '-wal', '-shm'].map(end => `${config.file}${end}`).filter(existsSync)
    // In another process: to close a file releases the locks that SQLite has on it in this one.
    return execFileSync('cat', files, { encoding: 'latin1', maxBuffer: 1e9 })
  }
  const tables = await rows(`select format('%I.%I', schemaname, tablename) as name from pg_tables
    where schemaname not in ('pg_catalog', 'information_schema')`)
  const texts = await Promise.all(
    tables.map(({ name }) => rows(`select t::text as text from ${name} t`)),
  )
  return texts.flatMap(table => table.map(({ text }) => String(text))).join('\n')
}
