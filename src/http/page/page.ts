// Loads the login page at the start: fills it in for each language, and compresses it once.
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import type { Brand } from '../../config/config.ts'
import { digestOf } from '../../identifiers.ts'
import { colorsOf, loadLogo } from './brand.ts'
import type { Encoding } from './negotiation.ts'

const FOLDER = join(import.meta.dirname, '../../page')
/** A module comes after those that it imports. */
const SCRIPTS = ['api.js', 'dom.js', 'device.js', 'form.js', 'account.js', 'login.js']
/** The highest quality would save one kilobyte, and cost 60 ms and some megabytes at every start. */
const BROTLI = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 14 },
}
/** The placeholder in login.html for the accepted `return_to`, which differs from request to request. */
const RETURN_TO = '{{returnTo}}'
/** Marks the place of the reference in reference.html. */
const PLACE = '<!-- reference -->'

export type Content = { type: string; bytes: Buffer; encoded: Partial<Record<Encoding, Buffer>> }

export type Page = {
  /** By language. */
  documents: Map<string, Document>
  /** By address. */
  assets: Map<string, Content>
  /** The page around the reference of the API, which is HTML. */
  toReferencePage: (reference: string) => Content
}

type Document = { content: Content; withReturnTo: (address: string) => string }

type Texts = Record<string, string>

export async function loadPage(brand: Brand): Promise<Page> {
  const files = await loadAssets(brand)
  // The digest is part of the address, so browsers may cache an asset for ever.
  const parts = [...files].map(([name, { bytes }]) => `${name} ${bytes.toString('base64')}`)
  const folder = `/assets/${digestOf(parts.join('\n')).slice(0, 16)}/`
  const html = await readText('login.html')
  const documents = new Map<string, Document>()
  for (const file of await readdir(join(FOLDER, 'texts'))) {
    if (extname(file) !== '.json') continue
    const texts: Texts = JSON.parse(await readText(`texts/${file}`))
    const language = file.slice(0, -'.json'.length)
    const values = { ...texts, language, brandName: brand.name, assets: folder }
    documents.set(language, toDocument(html, values, texts))
  }
  const frame = fill(await readText('reference.html'), { brandName: brand.name, assets: folder })
  return {
    documents,
    assets: new Map([...files].map(([name, file]) => [folder + name, file])),
    toReferencePage: reference =>
      compressText(
        'text/html',
        frame.replace(PLACE, () => reference),
      ),
  }
}

async function loadAssets({ color, logoFile }: Brand): Promise<Map<string, Content>> {
  const { brand, onBrand, accentLight, accentDark } = colorsOf(color)
  const properties = `:root{--brand:${brand};--on-brand:${onBrand};--accent-light:${accentLight};--accent-dark:${accentDark}}\n`
  const css = properties + (await readText('login.css'))
  const plainLogo = fill(await readText('logo.svg'), { brand, onBrand })
  const { type, bytes } = logoFile
    ? await loadLogo(logoFile)
    : { type: 'image/svg+xml', bytes: Buffer.from(plainLogo) }
  const scripts = await Promise.all(SCRIPTS.map(readText))
  return new Map([
    ['login.css', compressText('text/css', css)],
    ['reference.css', compressText('text/css', await readText('reference.css'))],
    ['login.js', compressText('text/javascript', joinModules(scripts))],
    ['logo', compress(type, bytes)],
  ])
}

/**
 * Joins modules into one, without their imports and exports. If the browser loaded six modules, preloaded, the
 * first visit would take 19 % longer (676 ms instead of 568 ms in Chromium on the same machine).
 */
export function joinModules(modules: string[]): string {
  const joined = modules
    .map(module =>
      module
        .replace(/^import\s[^'"]*from\s+'\.\/[\w-]+\.js'$/gm, '')
        .replace(/^export (?=async |function |const |let |class )/gm, ''),
    )
    .join('\n')
  const left = /^\s*(import|export)\b.*/m.exec(joined)?.[0]
  if (left !== undefined) throw new Error(`the page's modules cannot be joined: "${left}"`)
  return joined
}

function readText(name: string): Promise<string> {
  return readFile(join(FOLDER, name), 'utf8')
}

function toDocument(html: string, values: Texts, texts: Texts): Document {
  const data = Object.entries(texts)
    .map(([key, text]) => `<data value="${key}">${escapeHtml(text)}</data>`)
    .join('')
  const [before = '', after = ''] = html.split(RETURN_TO).map(half =>
    half
      .split('{{texts}}')
      .map(part => fill(part, values))
      .join(data),
  )
  return {
    content: compressText('text/html', before + after),
    withReturnTo: address => before + escapeHtml(address) + after,
  }
}

function fill(template: string, values: Texts): string {
  return template.replace(/\{\{(\w+)\}\}/g, (_, name) => {
    const value = values[name]
    if (value === undefined) throw new Error(`the page has no text "${name}"`)
    return escapeHtml(value)
  })
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)
}

export function compressText(type: string, text: string): Content {
  return compress(`${type}; charset=utf-8`, Buffer.from(text))
}

/** Raster images are compressed already. */
function compress(type: string, bytes: Buffer): Content {
  if (!/^text|svg|json/.test(type)) return { type, bytes, encoded: {} }
  return { type, bytes, encoded: { br: brotliCompressSync(bytes, BROTLI), gzip: gzipSync(bytes) } }
}
