// Reads and checks the look and the links of the login page.
import { resolve } from 'node:path'
import { isLoopback } from './addresses.ts'
import type { Reader } from './reader.ts'
import type { Variable } from './variables.ts'

export type PageConfig = Readonly<{
  brandName: string
  /** Null: the built-in logo in the brand's colour. */
  logoFile: string | null
  /** As #rrggbb. */
  brandColor: string
  /** Null: a sentence that names the administrator. */
  helpText: string | null
  helpUrl: string | null
  termsUrl: string | null
  privacyUrl: string | null
  /** Where a user goes that came without an address to return to. */
  homeUrl: string | null
}>

/** A longer name does not fit on a phone. */
const BRAND_NAME_MAX_CHARACTERS = 60
const HELP_TEXT_MAX_CHARACTERS = 200

export function readPage(read: Reader, isProduction: boolean): PageConfig {
  const color = read.text('BRAND_COLOR') ?? '#3451b2'
  if (!/^#([\da-f]{3}|[\da-f]{6})$/i.test(color)) {
    read.problems.push(`BRAND_COLOR must look like #3451b2 or #35b, not "${color}".`)
  }
  const logoFile = read.text('BRAND_LOGO_FILE')
  return {
    brandName: readLine(read, 'BRAND_NAME', BRAND_NAME_MAX_CHARACTERS) ?? 'Login Service',
    logoFile: logoFile && resolve(logoFile),
    brandColor: color.toLowerCase().replace(/^#(.)(.)(.)$/, '#$1$1$2$2$3$3'),
    helpText: readLine(read, 'HELP_TEXT', HELP_TEXT_MAX_CHARACTERS),
    helpUrl: readLink(read, 'HELP_URL', isProduction, ['mailto:', 'tel:']),
    termsUrl: readLink(read, 'TERMS_URL', isProduction),
    privacyUrl: readLink(read, 'PRIVACY_URL', isProduction),
    homeUrl: readLink(read, 'HOME_URL', isProduction),
  }
}

function readLine(read: Reader, name: Variable, maxCharacters: number): string | null {
  const line = read.text(name)
  if (line !== null && ([...line].length > maxCharacters || /\p{Cc}/u.test(line))) {
    read.problems.push(`${name} must be one line of at most ${maxCharacters} characters.`)
  }
  return line
}

/** Refuses `javascript:` and other schemes; in production also plain HTTP. */
function readLink(
  read: Reader,
  name: Variable,
  isProduction: boolean,
  schemes: string[] = [],
): string | null {
  const address = read.text(name)
  if (address === null) return null
  const url = URL.canParse(address) ? new URL(address) : null
  const isLocal = url?.protocol === 'http:' && !isProduction && isLoopback(url.hostname)
  const isAllowed = isLocal || ['https:', ...schemes].includes(url?.protocol ?? '')
  if (!isAllowed || url?.username || url?.password) {
    const or = schemes.map(scheme => `, or a ${scheme} address`).join('')
    read.problems.push(
      `${name} must be an https:// address without user and password${or}, not "${address}".`,
    )
  }
  return url?.href ?? address
}
