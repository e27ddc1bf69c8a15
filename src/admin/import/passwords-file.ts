// The file with the temporary passwords of an import: emails and passwords, in the order of the import. A password is on
// the disk before its user is stored, so an import that was interrupted goes on with the same passwords.
import { constants, type FileHandle, open } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { isDescriptorExposed, messageOf } from '../../files.ts'
import { Failure } from '../failures.ts'
import { takeLock } from '../file-lock.ts'
import { generatePassword } from '../operations/temporary-password.ts'
import { csvLine, fieldsOf } from './csv.ts'

const HEADING = csvLine(['email', 'password'], ',')

type Opened = { handle: FileHandle; lock: DatabaseSync; passwords: Map<string, string> }

export class PasswordsFile {
  readonly path: string
  #opened: Opened | null = null

  constructor(path: string) {
    this.path = path
  }

  /** Generates those that the file does not have. They are on the disk when it resolves. */
  async passwordsFor(emails: string[]): Promise<string[]> {
    try {
      this.#opened ??= await openPasswords(this.path)
      const { handle, passwords } = this.#opened
      const added = emails.filter(email => !passwords.has(email))
      for (const email of added) passwords.set(email, generatePassword())
      const lines = added.map(email => csvLine([email, passwords.get(email) ?? ''], ','))
      await handle.appendFile(lines.join(''))
      await handle.sync()
      return emails.map(email => passwords.get(email) ?? '')
    } catch (error) {
      if (error instanceof Failure) throw error
      throw new Failure(
        `The temporary passwords cannot be written to ${this.path}: ${messageOf(error)}. Run the command again when the file can be written.`,
      )
    }
  }

  async close(): Promise<void> {
    try {
      await this.#opened?.handle.close()
    } finally {
      this.#opened?.lock.close()
    }
  }
}

/** Continues the file of an earlier run. */
async function openPasswords(path: string): Promise<Opened> {
  const { O_RDWR, O_CREAT, O_APPEND, O_NOFOLLOW = 0 } = constants
  const handle = await open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0o600)
  let lock: DatabaseSync | null = null
  try {
    const { uid } = await handle.stat()
    if (isDescriptorExposed(handle.fd) || uid !== (process.getuid?.() ?? uid)) {
      throw new Failure(`${path} is not yours, or not only yours to read: move it away.`)
    }
    lock = await takeLock(`${path}.lock`, 0)
    if (!lock) throw new Failure(`Another import writes to ${path}: wait until it has ended.`)
    return { handle, lock, passwords: await readPasswords(path, handle) }
  } catch (error) {
    lock?.close()
    await handle.close()
    throw error
  }
}

async function readPasswords(path: string, handle: FileHandle): Promise<Map<string, string>> {
  const bytes = await handle.readFile()
  const end = bytes.lastIndexOf('\n') + 1
  // A part of a line is left of an interruption. Its user is not stored.
  await handle.truncate(end)
  if (end === 0) {
    await handle.appendFile(HEADING)
    await syncFolder(dirname(path))
    return new Map()
  }
  const [heading, ...lines] = bytes.toString('utf8', 0, end).match(/[^\n]*\n/g) ?? []
  const rows = lines.map(line => fieldsOf(Buffer.from(line), ','))
  if (heading !== HEADING || rows.some(({ length }) => length !== 2)) {
    throw new Failure(`${path} does not have temporary passwords: move it away.`)
  }
  return new Map(rows.map(([email = '', password = '']) => [email, password]))
}

/** Otherwise a new file could be missing after a power failure. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
