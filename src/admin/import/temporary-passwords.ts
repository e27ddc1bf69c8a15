// The temporary passwords of an import, in a file with emails and passwords, in the order of the import. A password is on
// the disk before its user is stored, so an import that was interrupted goes on with the same passwords.
import { constants, open } from 'node:fs/promises'
import { Failure } from '../../system/failures.ts'
import { hasCode, isDescriptorExposed, messageOf, replaceFile } from '../../system/files.ts'
import { generatePassword } from '../operations/temporary-password.ts'
import { csvLine, csvRecords, fieldsOf } from './csv.ts'

const HEADING = ['email', 'password']

/** Generates those that the file does not have. They are on the disk when it resolves. */
export async function passwordsFor(path: string, emails: string[]): Promise<Map<string, string>> {
  const all = new Map(await readPasswords(path))
  const passwords = new Map(emails.map(email => [email, all.get(email) ?? generatePassword()]))
  const lines = [HEADING, ...new Map([...all, ...passwords])].map(row => csvLine(row, ','))
  await replaceFile(path, lines.join(''), 0o600, 'caller').catch(error => {
    throw new Failure(
      `The temporary passwords cannot be written to ${path}: ${messageOf(error)}. Run the command again when the file can be written.`,
    )
  })
  return passwords
}

/** Those of an earlier run; none if there was none. */
async function readPasswords(path: string): Promise<[email: string, password: string][]> {
  try {
    const { O_RDONLY, O_NOFOLLOW = 0 } = constants
    await using file = await open(path, O_RDONLY | O_NOFOLLOW)
    const { uid } = await file.stat()
    // Passwords that another user of this machine has put there must not be given out.
    if (isDescriptorExposed(file.fd) || uid !== (process.getuid?.() ?? uid)) {
      throw new Failure(`${path} is not yours, or not only yours to read: move it away.`)
    }
    const records = [...csvRecords(await file.readFile('utf8'), ',')]
    const [heading, ...rows] = records.map(({ text }) => fieldsOf(text, ',') ?? [])
    if (heading?.join() !== HEADING.join() || rows.some(({ length }) => length !== 2)) {
      throw new Failure(`${path} does not have temporary passwords: move it away.`)
    }
    return rows.map(([email = '', password = '']) => [email, password])
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return []
    throw error
  }
}
