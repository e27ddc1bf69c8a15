// The rules for a password that is set. A login does not check them: a password that is stored stays valid.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { matchablePassword, PASSWORD_MAX_BYTES } from './credentials.ts'

export type PasswordFlaw = 'too_short' | 'too_long' | 'too_common' | 'personal' | 'unchanged'

type PasswordContext = {
  minLength: number
  email?: string
  name?: string
  brandName?: string
  /** The password that is replaced. */
  current?: string
}

/** What the specification asks of a client. The page takes no shorter password. */
export const PASSWORD_MIN_CHARACTERS = 8
/** generate-common-passwords.ts writes it. */
export const COMMON_PASSWORDS_FILE = join(import.meta.dirname, 'common-passwords.list')
/** Shorter parts, such as initials and "de", are in too many passwords by chance. */
const NAME_PART_MIN_CHARACTERS = 3

/** Null if the password may be set. `too_long` also stands for broken Unicode, which cannot be stored either. */
export async function findPasswordFlaw(
  password: string,
  context: PasswordContext,
): Promise<PasswordFlaw | null> {
  if (matchablePassword(password) === null) return 'too_long'
  if ([...password].length < context.minLength) return 'too_short'
  if (password === context.current) return 'unchanged'
  if (isPersonal(password, context)) return 'personal'
  if (await isCommon(password)) return 'too_common'
  return null
}

/** What is wrong and what to do, as the end of a sentence. */
export function describeFlaw(flaw: PasswordFlaw, minLength: number): string {
  const texts: Record<PasswordFlaw, string> = {
    too_short: `it has fewer than ${minLength} characters; choose a longer one`,
    too_long: `it has more than ${PASSWORD_MAX_BYTES} bytes; choose a shorter one`,
    too_common: 'it is one of the most common passwords; choose another one',
    personal:
      'it is made of the email or name of the user, or the name of the service; choose another one',
    unchanged: 'it is the current one; choose another one',
  }
  return texts[flaw]
}

function isPersonal(password: string, { email = '', name = '', brandName = '' }: PasswordContext) {
  const parts = name.split(/[^\p{L}\p{M}\p{N}]+/u)
  const longParts = parts.filter(part => [...part].length >= NAME_PART_MIN_CHARACTERS)
  const [localPart = '', domain = ''] = email.split('@', 2)
  // Of bob@mail.example.com: "bob", "bobmail", "bobmailexample", and "bobexample", "bobcom".
  const shortened = domain
    .split('.')
    .flatMap((label, index, labels) => [
      localPart + labels.slice(0, index).join(''),
      localPart + label,
    ])
  const texts = [email, ...shortened, name, brandName, ...longParts]
  return texts.some(text => isAround(password, text))
}

/** Whether the password is this text, alone or with digits and signs around it. Spaces and signs do not count. */
function isAround(password: string, text: string): boolean {
  const [typed, known] = [withoutSigns(password), withoutSigns(text)]
  const letters = withoutOuterDigits(known)
  // A text without letters, such as the email of a telephone number, has no ends to compare.
  return letters === '' ? known !== '' && typed === known : withoutOuterDigits(typed) === letters
}

const withoutSigns = (text: string) =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}]/gu, '')

/** From the first to the last character that is no digit. Removing `\p{N}+$` would take quadratic time. */
const withoutOuterDigits = (text: string) => /\P{N}(?:.*\P{N})?/su.exec(text)?.[0] ?? ''

/** Read at the first use. A search through this text takes less than 0.1 ms, and needs no set of 18,000 strings. */
let commonPasswords: string | undefined

async function isCommon(password: string): Promise<boolean> {
  commonPasswords ??= await readCommonPasswords()
  return commonPasswords.includes(`\n${password.toLowerCase()}\n`)
}

async function readCommonPasswords(): Promise<string> {
  const text = await readFile(COMMON_PASSWORDS_FILE, 'latin1')
  // Git may have changed the line ends on Windows.
  const lines = text.replaceAll('\r\n', '\n')
  return lines.slice(lines.indexOf('\n\n') + 1)
}
