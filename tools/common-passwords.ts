// Writes common-passwords.list from the package @zxcvbn-ts/language-common, which is needed only for this.
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { COMMON_PASSWORDS_FILE } from '../src/login/password-rules.ts'

const PACKAGE = '@zxcvbn-ts/language-common'
/** The smallest PASSWORD_MIN_LENGTH: shorter passwords are refused without the list. */
const MIN_CHARACTERS = 8

/** The source and its licence, an empty line, and one password per line, the most common one first. */
export function makeCommonPasswords(): string {
  const folder = dirname(createRequire(import.meta.url).resolve(`${PACKAGE}/package.json`))
  const read = (file: string) => readFileSync(join(folder, file), 'utf8')
  const passwords: string[] = JSON.parse(read('src/passwords.json'))
  const lowerCased = new Set(passwords.map(password => password.toLowerCase()))
  const kept = [...lowerCased].filter(password => [...password].length >= MIN_CHARACTERS)
  const { version } = JSON.parse(read('package.json'))
  const notice = `The passwords of ${MIN_CHARACTERS} or more characters of ${PACKAGE} ${version}.\n\n${read('LICENSE.txt')}`
  const header = notice.trimEnd().replace(/^/gm, '# ').replace(/ +$/gm, '')
  return `${header}\n\n${kept.join('\n')}\n`
}

export function writeCommonPasswords(): void {
  writeFileSync(COMMON_PASSWORDS_FILE, makeCommonPasswords())
}
