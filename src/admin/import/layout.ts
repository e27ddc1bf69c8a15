// How a file is to be read: what the options say, and otherwise what its content tells.
import { WrongUse } from '../failures.ts'
import { type TextEncoding, toUtf8 } from './encoding.ts'
import { type ColumnMap, FieldReader, formatOf, type SecretField } from './fields.ts'
import { FORMATS } from './formats.ts'
import { commonKindOf } from './hash-kinds.ts'
import { openRecords, type Records } from './records.ts'

const DELIMITER_NAMES: Record<string, string> = { ',': 'commas', ';': 'semicolons', '\t': 'tabs' }

export type LayoutOptions = {
  from?: string
  format?: string
  map?: ColumnMap
  ignoreUnknown?: boolean
  delimiter?: string
  encoding?: TextEncoding
  hashPasswords?: boolean
  withoutPasswords?: 'skip' | 'temporary'
}

/** `sentence` tells the user what was recognised. */
export async function openLayout(
  name: string,
  chunks: AsyncIterable<Buffer>,
  options: LayoutOptions,
) {
  const { from = options.format, map = {}, ignoreUnknown = false, hashPasswords } = options
  const { delimiter, encoding } = options
  let found: TextEncoding = 'utf8'
  const utf8 = toUtf8(chunks, encoding, recognised => {
    found = recognised
  })
  const container = from === 'csv' || from === 'ndjson' ? from : undefined
  const records = await openRecords(name, utf8, { container, delimiter })
  const format = container ? null : (FORMATS[from ?? ''] ?? formatOf(records.columns))
  const secret: SecretField = hashPasswords ? 'password' : 'passwordHash'
  const isMapped = Object.values(map).includes(secret)
  if (format && hashPasswords && !isMapped) {
    throw new WrongUse(
      `${name} seems to come from ${format.title}, which has hashes: leave out --hash-passwords. If it has passwords in plain text, add --from ${records.container === 'csv' ? 'csv' : 'ndjson'}.`,
    )
  }
  if (!format && !isMapped) refuseOtherSecret(records, secret)
  if (secret === 'password') {
    refuseHashes(records, Object.keys(map).find(each => map[each] === secret) ?? secret)
  }
  const fields = new FieldReader({
    ...{ format, map, secret, isIgnoringUnknown: ignoreUnknown },
    isSecretOptional: options.withoutPasswords === 'temporary',
  })
  if (records.container === 'csv') fields.checkColumns(records.columns)
  return { records, fields, secret, sentence: sentenceOf(name, records, format?.title, found) }
}

function sentenceOf(
  name: string,
  { container, delimiter }: Records,
  title: string | undefined,
  encoding: TextEncoding,
): string {
  const parts = [
    `${container.toUpperCase()}${title ? ` from ${title}` : ''}`,
    ...(delimiter ? [`with ${DELIMITER_NAMES[delimiter] ?? `"${delimiter}"`}`] : []),
    ...(encoding === 'utf8' ? [] : [`in ${encoding}`]),
  ]
  return `Reading ${name} as ${parts.join(' ')}.`
}

function refuseOtherSecret(records: Records, secret: SecretField): void {
  const { columns } = records
  if (secret === 'passwordHash' && columns.includes('password')) {
    refuseHashes(records, 'password')
    throw new WrongUse(
      'The file has passwords in plain text: add --hash-passwords to store their hashes.',
    )
  }
  if (secret === 'password' && columns.includes('passwordHash')) {
    throw new WrongUse('The file has hashes of passwords: leave out --hash-passwords.')
  }
}

function refuseHashes({ sample }: Records, column: string): void {
  const texts = sample.flatMap(({ [column]: text }) => (text ? String(text) : []))
  const kind = commonKindOf(texts)
  if (!kind) return
  const seems = `The column "${column}" seems to have hashes (${kind})`
  const advice = `add --map ${column}=passwordHash, not --hash-passwords`
  throw new WrongUse(
    kind === 'bcrypt'
      ? `${seems}: ${advice}.`
      : `${seems}, which cannot be imported: ${advice}, and --without-passwords temporary or skip (docs/migrating.md).`,
  )
}
