// Loads the login page at the start, and fills it in for each language.
import { readdir, readFile } from 'node:fs/promises'
import { join, parse } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import type { Config } from '../../config/config.ts'
import { digestOf } from '../../identifiers.ts'
import { colorsOf, loadLogo } from './brand.ts'
import type { Encoding } from './negotiation.ts'

const FOLDER = join(import.meta.dirname, '../../page')
/** A module comes after those that it imports. */
const SCRIPTS = [
  ...['api.js', 'dom.js', 'windows.js', 'return-to.js', 'device.js', 'session-list.js'],
  ...['account.js', 'password-field.js', 'new-password-field.js', 'fields.js'],
  ...['submit-button.js', 'send.js', 'form.js', 'login.js'],
]
/** The highest quality would save one kilobyte, and cost 60 ms and some megabytes. */
const BROTLI = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 14 },
}
/** Stands for the address to return to, which differs from request to request. No text may contain it. */
const RETURN_TO = '\0'

export type Content = {
  type: string
  bytes: Buffer
  /** Null: it would not become smaller. */
  encode: (encoding: Encoding) => Buffer | null
}

export type Page = {
  /** By language. */
  documents: Map<string, Document>
  /** By address. */
  assets: Map<string, Content>
  /** The page around the reference of the API, which is HTML. */
  toReferencePage: (reference: string) => Content
}

type Document = {
  withForm: Variant
  /** For a request with a session cookie: the account follows, unless the session has ended. */
  withoutForm: Variant
  /** For a browser that asks for an address where there is nothing. */
  notFound: Content
}
type Variant = { content: Content; withReturnTo: (address: string) => string }

type Texts = Record<string, string>

/** The settings that the page shows or follows. */
type PageConfig = Pick<Config, 'page' | 'passwordRules' | 'cookieIdleSeconds'>

export async function loadPage({
  page: config,
  passwordRules,
  cookieIdleSeconds,
}: PageConfig): Promise<Page> {
  const files = await loadAssets(config)
  // The digest is part of the address, so browsers may cache an asset for ever.
  const parts = [...files].map(([name, { bytes }]) => `${name} ${bytes.toString('base64')}`)
  const folder = `/assets/${digestOf(parts.join('\n')).slice(0, 16)}/`
  const html = await readText('login.html')
  const notFoundHtml = await readText('not-found.html')
  const referenceHtml = await readText('reference.html')
  const { brandName } = config
  const languages = await loadTexts()
  const documents = new Map<string, Document>()
  for (const [language, texts] of languages) {
    const values = {
      ...texts,
      ...{ language, brandName, assets: folder, homeUrl: config.homeUrl ?? '' },
      passwordMinLength: String(passwordRules.minLength),
      cookieIdleSeconds: String(cookieIdleSeconds),
      texts: toTemplate(texts),
      help: toHelp(config, texts),
      links: toFooter(config, language, languages),
    }
    documents.set(language, {
      withForm: toVariant(html, { ...values, formState: '' }),
      withoutForm: toVariant(html, { ...values, formState: ' hidden' }),
      notFound: compressText('text/html', fill(notFoundHtml, values)),
    })
  }
  return {
    documents,
    assets: new Map([...files].map(([name, file]) => [folder + name, file])),
    toReferencePage: reference =>
      compressText('text/html', fill(referenceHtml, { brandName, assets: folder, reference })),
  }
}

/** By language. */
async function loadTexts(): Promise<Map<string, Texts>> {
  const languages = new Map<string, Texts>()
  for (const file of await readdir(join(FOLDER, 'texts'))) {
    const { name, ext } = parse(file)
    if (ext === '.json') languages.set(name, JSON.parse(await readText(`texts/${file}`)))
  }
  return languages
}

async function loadAssets(config: Config['page']): Promise<Map<string, Content>> {
  const colors = colorsOf(config.brandColor)
  const css = `:root{${toProperties(colors)}}\n${await readText('login.css')}`
  const plainLogo = fill(await readText('logo.svg'), colors)
  const { logoFile } = config
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

/** Writes the colours as CSS: `--on-brand:#fff` for `onBrand`. */
function toProperties(colors: Texts): string {
  const properties = Object.entries(colors).map(
    ([name, color]) => `--${name.replace(/[A-Z]/g, '-$&').toLowerCase()}:${color}`,
  )
  return properties.join(';')
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

function toVariant(html: string, values: Texts): Variant {
  const [before = '', after = ''] = fill(html, { ...values, returnTo: RETURN_TO }).split(RETURN_TO)
  return {
    content: compressText('text/html', before + after),
    withReturnTo: address => before + escapeHtml(address) + after,
  }
}

function toTemplate(texts: Texts): string {
  const entries = Object.entries(texts)
  return entries.map(([key, text]) => `<data value="${key}">${escapeHtml(text)}</data>`).join('')
}

function toHelp({ helpUrl, helpText }: Config['page'], texts: Texts): string {
  if (helpUrl === null) return escapeHtml(helpText ?? texts.help ?? '')
  return toLink(helpUrl, helpText ?? texts.helpLink ?? '')
}

function toFooter(
  { termsUrl, privacyUrl }: Config['page'],
  language: string,
  languages: Map<string, Texts>,
): string {
  const texts = languages.get(language)
  const others = [...languages].filter(([other]) => other !== language)
  return [
    termsUrl && toLink(termsUrl, texts?.terms ?? ''),
    privacyUrl && toLink(privacyUrl, texts?.privacy ?? ''),
    ...others.map(([other, { languageName = other }]) =>
      toLink(`?lang=${other}`, languageName, ` lang="${other}" hreflang="${other}"`),
    ),
  ]
    .filter(Boolean)
    .join('\n')
}

function toLink(address: string, text: string, attributes = ''): string {
  return `<a href="${escapeHtml(address)}"${attributes}>${escapeHtml(text)}</a>`
}

/** Replaces `{{name}}` by an escaped value, and `{{{name}}}` by a value that is HTML. */
function fill(template: string, values: Texts): string {
  return template.replace(/\{\{(\{?)(\w+)\}?\}\}/g, (_, brace, name) => {
    const value = values[name]
    if (value === undefined) throw new Error(`the page has no text "${name}"`)
    return brace ? value : escapeHtml(value)
  })
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)
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
