// The pages and their files over HTTP: headers, languages, encodings. forms.test.ts uses them.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { OutgoingHttpHeaders } from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { run } from '../support/process.ts'
import { loggedBy, startTestService, type TestService } from '../support/service.ts'

const ISOLATING = {
  'content-security-policy':
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'",
  'cross-origin-opener-policy': 'same-origin',
  'origin-agent-cluster': '?1',
}
const APP = 'https://app.example.com'

const get = (service: TestService, path: string, headers: OutgoingHttpHeaders = {}) =>
  service.call({ method: 'GET', path, headers })

/** The files that a page names. */
const assetsOf = (html: string) => [
  ...new Set([...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(match => match[1] ?? '')),
]

/** The body as it is sent, still encoded. */
function bytesOf(service: TestService, path: string, encoding: string) {
  return new Promise<{ bytes: Buffer; encoding: string | undefined; length: string | undefined }>(
    (resolve, reject) => {
      const headers = { 'Accept-Encoding': encoding }
      const options = { headers, rejectUnauthorized: false, agent: false }
      https
        .get(new URL(path, service.url), options, async answer => {
          const chunks: Buffer[] = []
          for await (const chunk of answer) chunks.push(chunk)
          resolve({
            bytes: Buffer.concat(chunks),
            encoding: answer.headers['content-encoding'],
            length: answer.headers['content-length'],
          })
        })
        .once('error', reject)
    },
  )
}

describe('the page', () => {
  let service: TestService
  let html: string
  before(async () => {
    service = await startTestService('sqlite', { RETURN_TO_ORIGINS: APP })
    html = (await get(service, '/login')).text
  })
  after(() => service.stop())

  for (const path of [
    ...['/', '/login', '/login/password', '/login?return_to=https://evil.example'],
    `/?return_to=${APP}`,
  ]) {
    test(`${path} is a page with a policy for this origin alone, and is not stored`, async () => {
      const { status, headers } = await get(service, path)
      assert.equal(status, 200)
      assert.equal(headers['content-type'], 'text/html; charset=utf-8')
      assert.partialDeepStrictEqual(headers, ISOLATING)
      assert.equal(headers['cache-control'], 'no-store')
      assert.match(String(headers.vary), /Accept-Language/)
      assert.equal(headers['set-cookie'], undefined)
    })
  }

  test('page and files carry the protective headers of all other answers', async () => {
    const other = await get(service, '/nothing')
    for (const path of ['/login', '/docs', '/openapi.json', ...assetsOf(html)]) {
      const { headers } = await get(service, path)
      const own = ['content-security-policy', 'cache-control', 'content-type', 'content-length']
      for (const name of Object.keys(other.headers)) {
        if (['date', 'vary', 'x-request-id', ...own].includes(name)) continue
        assert.equal(headers[name], other.headers[name], `${name} of ${path}`)
      }
    }
  })

  test('the page has no inline code or style, and refers to no other origin', () => {
    assert.doesNotMatch(html, /<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:/i)
    assert.doesNotMatch(html, /(src|href|action)="(?!\/assets\/|\/login"|\?lang=de")/)
    assert.match(html, /<form [^>]*method="post"[^>]*>/)
  })

  test('the well-known address for changing a password leads to the form', async () => {
    const { status, headers } = await get(service, '/.well-known/change-password')
    assert.equal(status, 302)
    assert.equal(headers.location, '/login/password')
    assert.equal(headers['cache-control'], 'no-store')
    const form = await get(service, '/login/password')
    assert.match(form.text, /id="new-password"[^>]* minlength="8" autocomplete="new-password"/s)
  })

  test('its files exist, have their types and are cached as immutable', async () => {
    const types: Record<string, RegExp> = {
      css: /^text\/css; charset=utf-8$/,
      js: /^text\/javascript; charset=utf-8$/,
      logo: /^image\/svg\+xml$/,
    }
    const assets = assetsOf(html)
    assert.deepEqual(assets.map(path => path.split('/').at(-1)).toSorted(), [
      ...['login.css', 'login.js', 'logo'],
    ])
    for (const path of assets) {
      const { status, headers } = await get(service, path)
      assert.equal(status, 200)
      assert.match(String(headers['content-type']), types[/\w+$/.exec(path)?.[0] ?? ''] ?? /^$/)
      assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable')
      assert.equal(headers['content-security-policy'], "default-src 'none'; frame-ancestors 'none'")
    }
  })

  test('/docs is a page without scripts under the same policy, and may be cached, as may /openapi.json', async () => {
    const docs = await get(service, '/docs')
    assert.equal(docs.headers['content-type'], 'text/html; charset=utf-8')
    assert.partialDeepStrictEqual(docs.headers, ISOLATING)
    assert.doesNotMatch(docs.text, /<script|<style|\sstyle=|\son\w+=|javascript:|\{\{|undefined/i)
    assert.doesNotMatch(docs.text, /(src|href)="(?!\/assets\/|\/openapi\.json"|#\w+")/)
    for (const [, id] of docs.text.matchAll(/href="#(\w+)"/g)) {
      assert.equal(docs.text.split(`id="${id}"`).length, 2, id)
    }
    for (const path of assetsOf(docs.text)) assert.equal((await get(service, path)).status, 200)
    const json = await get(service, '/openapi.json')
    assert.equal(json.headers['content-type'], 'application/json; charset=utf-8')
    assert.equal(
      json.headers['content-security-policy'],
      "default-src 'none'; frame-ancestors 'none'",
    )
    for (const { headers } of [docs, json]) {
      assert.equal(headers['cache-control'], 'public, max-age=300')
      assert.equal(headers['set-cookie'], undefined)
    }
  })

  test('any other file name is answered 404 in the envelope', async () => {
    for (const path of [
      ...['/assets/', '/assets/login.css', '/assets/0000000000000000/login.css', '/login.css'],
      ...assetsOf(html).flatMap(asset => [`${asset}x`, `${asset}/`, asset.toUpperCase()]),
      ...['tsconfig.json', 'login.html', 'texts/en.json', '../page.ts', '..%2fpage.ts'].map(
        name => `${assetsOf(html)[0]?.replace(/[^/]+$/, '')}${name}`,
      ),
    ]) {
      const { status, json } = await get(service, path)
      assert.deepEqual([status, json.error?.code], [404, 'NOT_FOUND'], path)
    }
  })

  test('HEAD is GET without the body; other methods are not allowed', async () => {
    for (const path of ['/', '/login', '/docs', '/openapi.json', ...assetsOf(html)]) {
      const got = await get(service, path)
      const head = await service.call({ method: 'HEAD', path })
      assert.deepEqual([head.status, head.text], [200, ''])
      for (const name of ['content-type', 'content-length', 'content-security-policy', 'vary']) {
        assert.equal(head.headers[name], got.headers[name], name)
      }
      for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE']) {
        if (method === 'POST' && path === '/login') continue
        const { status, headers, json } = await service.call({ method, path })
        assert.deepEqual([status, json.error.code], [405, 'METHOD_NOT_ALLOWED'])
        assert.match(String(headers.allow), /GET/)
      }
    }
  })

  const ENCODINGS: [accepted: string, encoding: string | undefined][] = [
    ['gzip, deflate, br, zstd', 'br'],
    ['br;q=0.1, gzip', 'br'],
    ['gzip', 'gzip'],
    ['GZIP;q=1.0', 'gzip'],
    ['br;q=0, gzip;q=0.5', 'gzip'],
    ['br; q=0 , gzip ; q=0.000', undefined],
    ['identity', undefined],
    ['', undefined],
    ['*', undefined],
    ['deflate', undefined],
    ['brx, xgzip', undefined],
    ['br;q=x', undefined],
  ]
  for (const [accepted, encoding] of ENCODINGS) {
    test(`Accept-Encoding "${accepted}" is answered ${encoding ? `in ${encoding}` : 'without encoding'}`, async () => {
      for (const path of ['/docs', '/openapi.json', ...assetsOf(html)]) {
        const plain = await get(service, path, { 'Accept-Encoding': 'identity' })
        const sent = await bytesOf(service, path, accepted)
        assert.equal(sent.encoding, encoding)
        assert.equal(sent.length, String(sent.bytes.length))
        const decode = { br: brotliDecompressSync, gzip: gunzipSync }[sent.encoding ?? '']
        assert.equal((decode ? decode(sent.bytes) : sent.bytes).toString(), plain.text)
        assert.match(String(plain.headers.vary), /Accept-Encoding/)
      }
    })
  }

  const LANGUAGES: [accepted: string | undefined, language: string][] = [
    [undefined, 'en'],
    ['de', 'de'],
    ['de-AT, en;q=0.5', 'de'],
    ['DE', 'de'],
    ['en;q=0.5, de;q=0.9', 'de'],
    ['fr, de;q=0.3', 'de'],
    ['en, de', 'en'],
    ['de;q=0, en', 'en'],
    ['fr', 'en'],
    ['*', 'en'],
    ['deutsch', 'en'],
    ['../../de', 'en'],
    ['__proto__, constructor', 'en'],
    [',;q=,;;', 'en'],
  ]
  for (const [accepted, language] of LANGUAGES) {
    test(`Accept-Language ${accepted} gets ${language}`, async () => {
      const { text } = await get(service, '/', accepted ? { 'Accept-Language': accepted } : {})
      assert.match(text, new RegExp(`<html lang="${language}" dir="ltr">`))
      assert.match(text, language === 'de' ? /Anmelden/ : /Log in/)
    })
  }

  test('a browser that shows an unknown address gets a page; all others get the envelope', async () => {
    const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
    const navigation = { Accept: accept, 'Accept-Language': 'de' }
    const shown = await get(service, '/nothing?<b>', navigation)
    assert.equal(shown.status, 404)
    assert.match(shown.text, /<html lang="de"[\s\S]*Seite nicht gefunden[\s\S]*href="\/login"/)
    assert.ok(!shown.text.includes('nothing'))
    assert.equal(shown.headers['content-type'], 'text/html; charset=utf-8')
    assert.partialDeepStrictEqual(shown.headers, ISOLATING)
    assert.equal(shown.headers['x-frame-options'], 'DENY')
    assert.equal(shown.headers['cache-control'], 'no-store')
    for (const [method, Accept] of [
      ['GET', '*/*'],
      ['GET', 'application/json'],
      ['POST', accept],
    ] as const) {
      const { status, json } = await service.call({ method, path: '/nothing', headers: { Accept } })
      assert.deepEqual([status, json.error.code], [404, 'NOT_FOUND'])
    }
  })

  test('lang chooses the language; any other value is ignored', async () => {
    for (const [query, language] of [
      ['lang=de', 'de'],
      ['lang=en', 'en'],
      ['lang=DE', 'en'],
      ['lang=fr', 'en'],
      ['lang=de&lang=de', 'en'],
      ['lang=__proto__', 'en'],
      [`lang=${'d'.repeat(2000)}`, 'en'],
    ]) {
      const { text } = await get(service, `/login?${query}`, { 'Accept-Language': 'en' })
      assert.match(text, new RegExp(`<html lang="${language}"`), query)
    }
    const german = await get(service, '/login?lang=de')
    assert.match(german.text, /<a href="\?lang=en" lang="en" hreflang="en">English<\/a>/)
  })

  test('a return_to of any other form is not accepted', async () => {
    for (const query of [
      `return_to=${APP}/&return_to=${APP}/`,
      ...[`return_to=https://evil.example/&return_to=${APP}/`, `return_to[]=${APP}/`],
      ...[`RETURN_TO=${APP}/`, `return_to=${APP}%09/`, `return_to=${APP}%5C@evil.example`],
      ...['return_to=//evil.example', 'return_to=%E0%A4', `return_to=${APP}/${'a'.repeat(2048)}`],
      ...['return_to', '__proto__[return_to]=x'],
    ]) {
      const { status, text } = await get(service, `/login?${query}`)
      assert.equal(status, 200)
      assert.doesNotMatch(text, /id="destination"|href="https/, query)
    }
  })

  test('an accepted return_to is not logged', async () => {
    const lines = await loggedBy(service, () => get(service, `/login?return_to=${APP}/canary`))
    assert.doesNotMatch(JSON.stringify(lines), /canary/)
  })
})

describe('the page of a brand', () => {
  let folder: string
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'login-brand-'))
  })
  after(() => rm(folder, { recursive: true }))

  async function branded(env: Record<string, string>) {
    const service = await startTestService('sqlite', env)
    const { text: html } = await get(service, '/login')
    const find = (name: string) => assetsOf(html).find(path => path.endsWith(name)) ?? ''
    const css = await get(service, find('login.css'))
    const logo = await get(service, find('logo'))
    await service.stop()
    return { html, css: css.text, logo, folder: find('logo') }
  }

  test('its name is escaped, even if it is markup', async () => {
    const { html } = await branded({ BRAND_NAME: `<script>&"'` })
    assert.doesNotMatch(html, /<script>/)
    assert.match(html, /<span id="brand" dir="auto">&#60;script&#62;&#38;&#34;&#39;<\/span>/)
  })

  test('its colour is set in the style sheet, with a text colour that is readable on it', async () => {
    const { css } = await branded({ BRAND_COLOR: '#FD0' })
    assert.match(css, /^:root\{--brand:#ffdd00;/)
    assert.match(css, /^:root\{[^}]*--on-brand:#000000;/)
  })

  test('its help and its links are part of the page, escaped', async () => {
    const { html } = await branded({
      HELP_TEXT: 'Call <b>1234</b>',
      TERMS_URL: 'https://example.com/terms?a="b"&c',
      PRIVACY_URL: 'https://example.com/privacy',
      HOME_URL: 'https://example.com/',
    })
    assert.match(html, /<p class="foot" [^>]*>Call &#60;b&#62;1234&#60;\/b&#62;<\/p>/)
    assert.match(html, /<a href="https:\/\/example\.com\/terms\?a=%22b%22&#38;c">Terms<\/a>/)
    assert.match(html, /<a href="https:\/\/example\.com\/privacy">Privacy<\/a>/)
    const help = /<p class="foot" [^>]*>(.*)<\/p>/
    const linked = await branded({ HELP_URL: 'mailto:help@example.com' })
    assert.equal(
      help.exec(linked.html)?.[1],
      '<a href="mailto:help@example.com">Forgot your password, or need an account?</a>',
    )
    const both = await branded({ HELP_URL: 'https://example.com/help', HELP_TEXT: 'Help' })
    assert.equal(help.exec(both.html)?.[1], '<a href="https://example.com/help">Help</a>')
  })

  test('its logo has the type of its content, and a policy that allows no script', async () => {
    const svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    const file = join(folder, 'logo.png')
    await writeFile(file, svg)
    const { logo } = await branded({ BRAND_LOGO_FILE: file })
    assert.equal(logo.text, svg)
    assert.equal(logo.headers['content-type'], 'image/svg+xml')
    assert.equal(
      logo.headers['content-security-policy'],
      "default-src 'none'; frame-ancestors 'none'",
    )
    assert.equal(logo.headers['x-content-type-options'], 'nosniff')
  })

  test('the file names change with the content of the files, and not with the name of the brand', async () => {
    const one = await branded({})
    const same = await branded({ BRAND_NAME: 'Other' })
    const other = await branded({ BRAND_COLOR: '#000' })
    assert.equal(one.folder, same.folder)
    assert.notEqual(one.folder, other.folder)
  })

  test('a logo that cannot be used stops the start with the reason', async () => {
    const service = run({ DATA_DIR: folder, BRAND_LOGO_FILE: join(folder, 'missing.svg') })
    assert.deepEqual(await service.exit, { code: 1, signal: null })
    assert.match(service.output(), /BRAND_LOGO_FILE cannot be used: ENOENT.*missing\.svg/)
  })
})

describe('the page behind a TLS proxy', () => {
  test('is answered over HTTPS only, as are its files', async context => {
    const service = await startTestService('sqlite', { TRUST_PROXY: '127.0.0.1/32' })
    context.after(() => service.stop())
    const forwarded = { 'X-Forwarded-For': '203.0.113.9', 'X-Forwarded-Proto': 'https' }
    const page = await get(service, '/login', forwarded)
    assert.equal(page.status, 200)
    for (const path of ['/', '/login', '/docs', '/openapi.json', ...assetsOf(page.text)]) {
      const { status, json } = await get(service, path, {
        ...forwarded,
        'X-Forwarded-Proto': 'http',
      })
      assert.deepEqual([status, json.error.code], [403, 'HTTPS_REQUIRED'])
    }
  })
})
