// What all pages share, loaded at the start: the operator's brand and links, and the files that a page loads.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import type { Config } from '../../config/config.ts'
import { digestOf } from '../../system/identifiers.ts'
import { colorsOf, loadLogo } from './brand.ts'
import type { Encoding } from './negotiation.ts'

const FOLDER = join(import.meta.dirname, '../../page')
/** The highest quality would save one kilobyte, and cost 60 ms and some megabytes. */
const BROTLI = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 14 },
}

export type Content = {
  type: string
  bytes: Buffer
  /** Null: it would not become smaller. */
  encode: (encoding: Encoding) => Buffer | null
}

export type Page = Config['page'] & {
  passwordMinLength: number
  /** The domain whose passkeys the pages offer; null if they offer none. */
  passkeyRpId: string | null
  /** The folder of the assets. */
  folder: string
  /** By address. */
  assets: Map<string, Content>
}

export async function loadPage({
  page,
  passkeyRpId,
  passwordRules,
}: Pick<Config, 'page' | 'passkeyRpId' | 'passwordRules'>): Promise<Page> {
  const files = await loadAssets(page)
  // The digest is part of the address, so browsers may cache an asset for ever.
  const parts = [...files].map(([name, { bytes }]) => `${name} ${bytes.toString('base64')}`)
  const folder = `/assets/${digestOf(parts.join('\n')).slice(0, 16)}/`
  const assets = new Map([...files].map(([name, file]) => [folder + name, file]))
  const passwordMinLength = passwordRules.minLength
  return { ...page, passwordMinLength, passkeyRpId, folder, assets }
}

async function loadAssets({ brandColor, logoFile }: Config['page']): Promise<Map<string, Content>> {
  const read = (name: string) => readFile(join(FOLDER, name), 'utf8')
  const colors = colorsOf(brandColor)
  const css = `:root{${toProperties(colors)}}\n${await read('login.css')}${await read('two-step.css')}`
  const plainLogo = (await read('logo.svg'))
    .replaceAll('{{brand}}', colors.brand)
    .replaceAll('{{onBrand}}', colors.onBrand)
  const { type, bytes } = logoFile
    ? await loadLogo(logoFile)
    : { type: 'image/svg+xml', bytes: Buffer.from(plainLogo) }
  return new Map([
    ['login.css', compressText('text/css', css)],
    ['console.css', compressText('text/css', await read('console.css'))],
    ['reference.css', compressText('text/css', await read('reference.css'))],
    ['login.js', compressText('text/javascript', await read('login.js'))],
    ['logo', compress(type, bytes)],
  ])
}

/** Writes the colours as CSS: `--on-brand:#fff` for `onBrand`. */
function toProperties(colors: Record<string, string>): string {
  const properties = Object.entries(colors).map(
    ([name, color]) => `--${name.replace(/[A-Z]/g, '-$&').toLowerCase()}:${color}`,
  )
  return properties.join(';')
}

export function compressText(type: string, text: string): Content {
  return compress(`${type}; charset=utf-8`, Buffer.from(text))
}

/** Raster images are compressed already. Anything else is compressed once, when it is first asked for. */
function compress(type: string, bytes: Buffer): Content {
  if (!/^text|svg|json/.test(type)) return { type, bytes, encode: () => null }
  const encoded: Partial<Record<Encoding, Buffer>> = {}
  return {
    type,
    bytes,
    encode(encoding) {
      encoded[encoding] ??= encoding === 'br' ? brotliCompressSync(bytes, BROTLI) : gzipSync(bytes)
      return encoded[encoding]
    },
  }
}
