// The pages and their files over HTTP: headers, languages, encodings. forms.test.ts uses them.
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import type { OutgoingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { own, ownFolder } from '../support/own.ts'
import { run } from '../support/process.ts'
import { answersOf, createRawClient, receive } from '../support/raw-connection.ts'
import { loggedBy, startTestService, type TestService } from '../support/service.ts'

const ISOLATING = {
  'content-security-policy':
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'",
  'cross-origin-opener-policy': 'same-origin',
  'origin-agent-cluster': '?1',
  'content-type': 'text/html; charset=utf-8',
}
const PAGE = { ...ISOLATING, 'cache-control': 'no-store' }
const FORM = 'Content-Type: application/x-www-form-urlencoded'
const NO_PAGE = "default-src 'none'; frame-ancestors 'none'"
const APP = 'https://app.example.com'
const FIRST_VISIT_MAX_BYTES = 30_000

const get = (service: TestService, path: string, headers: OutgoingHttpHeaders = {}) =>
  service.call({ method: 'GET', path, headers })

/** The files that a page names. */
const assetsOf = (html: string) => [
  ...new Set([...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(match => match[1] ?? '')),
]

describe('the page', async () => {
  const service = await own(startTestService('sqlite', { RETURN_TO_ORIGINS: APP }))
  const { text: html } = await get(service, '/login')
  const assets = assetsOf(html)
  const raw = await createRawClient(service)
  // The service waits for its end while the other tests run.
  const unfinished = await raw.open()
  const first = ['POST /login HTTP/1.1', 'Host: localhost', 'Content-Length: 20', FORM]
  const rest = ['Accept-Language: de', 'Sec-Fetch-Site: same-origin', '', 'email']
  unfinished.write([...first, ...rest].join('\r\n'))
  const answered = receive(unfinished)

  test('every page has a policy for this origin alone, and is not stored; the log does not tell an accepted return_to', async () => {
    const EVERY = ['/', '/login', '/login/password', `/?return_to=${APP}/canary`]
    const lines = await loggedBy(service, async () => {
      for (const path of [...EVERY, '/login?return_to=https://evil.example']) {
        const { status, headers } = await get(service, path)
        assert.equal(status, 200, path)
        assert.partialDeepStrictEqual(headers, PAGE, path)
        assert.match(String(headers.vary), /Accept-Language/)
        assert.equal(headers['set-cookie'], undefined)
      }
    })
    assert.doesNotMatch(JSON.stringify(lines), /canary/)
  })

  test('page and files carry the protective headers of all other answers', async () => {
    const other = await get(service, '/nothing')
    for (const path of ['/login', '/docs', '/openapi.json', ...assets]) {
      const { headers } = await get(service, path)
      const special = ['content-security-policy', 'cache-control', 'content-type', 'content-length']
      for (const name of Object.keys(other.headers)) {
        if (['date', 'vary', 'x-request-id', ...special].includes(name)) continue
        assert.equal(headers[name], other.headers[name], `${name} of ${path}`)
      }
    }
  })

  test('the page has no inline code or style, and refers to no other origin', () => {
    assert.doesNotMatch(html, /<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:/i)
    assert.doesNotMatch(html, /(src|href|action)="(?!\/assets\/|\/login"|\?lang=de")/)
    assert.match(html, /<form [^>]*method="post"[^>]*>/)
  })

  test('the well-known address for changing a password leads to the form, and that to the login', async () => {
    const { status, headers } = await get(service, '/.well-known/change-password')
    assert.deepEqual([status, headers.location], [302, '/login/password'])
    assert.equal(headers['cache-control'], 'no-store')
    const form = await get(service, '/login/password')
    assert.match(form.text, /id="new-password"[^>]* minlength="8" autocomplete="new-password"/s)
    assert.match(form.text, /<a id="cancel"[^>]* href="\/login">/)
  })

  test('its files exist, have their types and are cached as immutable', async () => {
    const TYPES = {
      'login.css': 'text/css; charset=utf-8',
      'login.js': 'text/javascript; charset=utf-8',
      logo: 'image/svg+xml',
    }
    const found = assets.map(async path => {
      const { status, headers } = await get(service, path)
      assert.equal(status, 200)
      assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable')
      assert.equal(headers['content-security-policy'], NO_PAGE)
      return [path.split('/').at(-1), headers['content-type']]
    })
    assert.deepEqual(Object.fromEntries(await Promise.all(found)), TYPES)
  })

  test('/docs is a page without scripts under the same policy, and may be cached, as may /openapi.json', async () => {
    const docs = await get(service, '/docs')
    assert.partialDeepStrictEqual(docs.headers, ISOLATING)
    assert.doesNotMatch(docs.text, /<script|<style|\sstyle=|\son\w+=|javascript:|\{\{|undefined/i)
    assert.doesNotMatch(docs.text, /(src|href)="(?!\/assets\/|\/openapi\.json"|#\w+")/)
    for (const [, id] of docs.text.matchAll(/href="#(\w+)"/g)) {
      assert.equal(docs.text.split(`id="${id}"`).length, 2, id)
    }
    for (const path of assetsOf(docs.text)) assert.equal((await get(service, path)).status, 200)
    const json = await get(service, '/openapi.json')
    assert.equal(json.headers['content-type'], 'application/json; charset=utf-8')
    assert.equal(json.headers['content-security-policy'], NO_PAGE)
    for (const { headers } of [docs, json]) {
      assert.equal(headers['cache-control'], 'public, max-age=300')
      assert.equal(headers['set-cookie'], undefined)
    }
  })

  test('any other file name is answered 404 in the envelope', async () => {
    for (const path of [
      ...['/assets/', '/assets/login.css', '/assets/0000000000000000/login.css', '/login.css'],
      ...assets.flatMap(asset => [`${asset}x`, `${asset}/`, asset.toUpperCase()]),
      ...['tsconfig.json', 'login.html', 'texts/en.json', '../page.ts', '..%2fpage.ts'].map(
        name => `${assets[0]?.replace(/[^/]+$/, '')}${name}`,
      ),
    ]) {
      const { status, json } = await get(service, path)
      assert.deepEqual([status, json.error?.code], [404, 'NOT_FOUND'], path)
    }
  })

  test('HEAD is GET without the body; other methods are not allowed', async () => {
    for (const path of ['/', '/login', '/docs', '/openapi.json', ...assets]) {
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

  async function receiveEncoded(path: string, accepted: string) {
    const socket = await raw.open()
    socket.end(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: ${accepted}\r\n\r\n`)
    const received = await receive(socket)
    const headEnd = received.indexOf('\r\n\r\n') + 4
    const head = received.toString('latin1', 0, headEnd).replaceAll('\r', '')
    return { head, bytes: received.subarray(headEnd), all: received.length }
  }

  test('the first visit transfers less than 30 KB', async t => {
    const answers = ['/login', ...assets].map(path => receiveEncoded(path, 'gzip, br'))
    const sizes = (await Promise.all(answers)).map(({ all }) => all)
    const bytes = sizes.reduce((sum, size) => sum + size)
    t.diagnostic(`first visit: ${bytes} bytes in ${sizes.length} answers, headers included`)
    assert.ok(bytes < FIRST_VISIT_MAX_BYTES, String(bytes))
  })

  test('page files are sent in the encoding that the browser prefers', async () => {
    const unchanged = (sent: Buffer) => sent
    const others = [
      ...['br; q=0 , gzip ; q=0.000', 'identity', '', '*', 'deflate', 'brx, xgzip', 'br;q=x'],
    ]
    for (const path of ['/docs', '/openapi.json', ...assets]) {
      const plain = await get(service, path, { 'Accept-Encoding': 'identity' })
      assert.match(String(plain.headers.vary), /Accept-Encoding/)
      for (const [encoding, decode, accepting] of [
        ['br', brotliDecompressSync, ['gzip, deflate, br, zstd', 'br;q=0.1, gzip']],
        ['gzip', gunzipSync, ['gzip', 'GZIP;q=1.0', 'br;q=0, gzip;q=0.5']],
        ['none', unchanged, others],
      ] as const) {
        for (const accepted of accepting) {
          const { head, bytes } = await receiveEncoded(path, accepted)
          assert.equal(/^content-encoding: (.*)$/im.exec(head)?.[1] ?? 'none', encoding, accepted)
          assert.match(head, new RegExp(`^content-length: ${bytes.length}$`, 'im'))
          assert.equal(decode(bytes).toString(), plain.text)
        }
      }
    }
  })

  test('the language is that of lang, or the one that the browser prefers', async () => {
    // Accept-Language and the query. src/http/page/negotiation.test.ts has more preferences.
    const ASKED = {
      de: ['de', 'en;q=0.5, de;q=0.9', 'fr, de;q=0.3', 'en?lang=de'],
      en: [
        ...['', 'en, de', 'de;q=0, en', 'fr', '*', 'deutsch', '../../de', '__proto__', ',;q=,;;'],
        ...['de?lang=en', 'en?lang=DE', 'en?lang=fr', 'en?lang=de&lang=de', 'en?lang=__proto__'],
        `en?lang=${'d'.repeat(2000)}`,
      ],
    }
    for (const [language, asking] of Object.entries(ASKED)) {
      for (const asked of asking) {
        const [accepted, query = ''] = asked.split('?')
        const headers = accepted ? { 'Accept-Language': accepted } : {}
        const { text } = await get(service, `/login?${query}`, headers)
        assert.match(text, new RegExp(`<html lang="${language}" dir="ltr">`), asked)
        assert.match(text, language === 'de' ? /Anmelden/ : /Log in/)
        const other = '<a href="?lang=en" lang="en" hreflang="en">English</a>'
        assert.equal(text.includes(other), language === 'de')
      }
    }
  })

  test('a browser that shows an unknown address gets a page; all others get the envelope', async () => {
    const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
    const navigation = { Accept: accept, 'Accept-Language': 'de' }
    const shown = await get(service, '/nothing?<b>', navigation)
    assert.equal(shown.status, 404)
    assert.match(shown.text, /<html lang="de"[\s\S]*Seite nicht gefunden[\s\S]*href="\/login"/)
    assert.ok(!shown.text.includes('nothing'))
    assert.partialDeepStrictEqual(shown.headers, { ...PAGE, 'x-frame-options': 'DENY' })
    for (const asked of ['GET */*', 'GET application/json', `POST ${accept}`]) {
      const [method = '', Accept = ''] = asked.split(' ')
      const { status, json } = await service.call({ method, path: '/nothing', headers: { Accept } })
      assert.deepEqual([status, json.error.code], [404, 'NOT_FOUND'])
    }
  })

  test('a return_to of any other form is not accepted', async () => {
    for (const query of [
      ...[`return_to=${APP}/&return_to=${APP}/`, `return_to[]=${APP}/`, `RETURN_TO=${APP}/`],
      ...[`return_to=${APP}%5C@evil.example`, 'return_to=%E0%A4', 'return_to'],
      '__proto__[return_to]=x',
    ]) {
      const { status, text } = await get(service, `/login?${query}`)
      assert.equal(status, 200)
      assert.doesNotMatch(text, /id="destination"|href="https/, query)
    }
  })

  test('a form whose body does not arrive in time is answered 408 with a page', async () => {
    const [answer] = answersOf(await answered)
    assert.equal(answer?.status, 408)
    assert.equal(answer?.headers.get('content-type'), 'text/html; charset=utf-8')
    assert.match(answer?.headers.get('content-security-policy') ?? '', /form-action 'self'/)
    assert.match(answer?.body ?? '', /Ihre Verbindung war zu langsam/)
  })
})

describe('the page of a brand', async () => {
  const folder = await ownFolder('login-brand-')
  const logoFile = join(folder, 'logo.png')
  const svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
  await writeFile(logoFile, svg)
  async function branded(env: Record<string, string>) {
    const service = await own(startTestService('sqlite', env))
    const { text: html } = await get(service, '/login')
    const logoAddress = assetsOf(html).find(path => path.endsWith('logo')) ?? ''
    const css = await get(service, logoAddress.replace('logo', 'login.css'))
    const logo = await get(service, logoAddress)
    const [, help] = /<p class="foot" [^>]*>(.*)<\/p>/.exec(html) ?? []
    return { html, css: css.text, logo, logoAddress, help }
  }
  const plain = await branded({ HELP_URL: 'mailto:help@example.com' })
  const named = await branded({
    BRAND_NAME: `<script>&"'`,
    HELP_TEXT: 'Call <b>1234</b>',
    TERMS_URL: 'https://example.com/terms?a="b"&c',
    PRIVACY_URL: 'https://example.com/privacy',
  })
  const coloured = await branded({
    BRAND_COLOR: '#FD0',
    BRAND_LOGO_FILE: logoFile,
    HELP_URL: 'https://example.com/help',
    HELP_TEXT: 'Help',
  })

  test('its colour is in the style sheet, with a text colour that is readable on it', () => {
    assert.match(coloured.css, /^:root\{--brand:#ffdd00;[^}]*--on-brand:#000000;/)
  })

  test('its name, its help and its links are part of the page, escaped', () => {
    assert.doesNotMatch(named.html, /<script>/)
    assert.match(named.html, /<span id="brand" dir="auto">&#60;script&#62;&#38;&#34;&#39;<\/span>/)
    assert.equal(named.help, 'Call &#60;b&#62;1234&#60;/b&#62;')
    assert.equal(coloured.help, '<a href="https://example.com/help">Help</a>')
    const question = 'Forgot your password, or need an account?'
    assert.equal(plain.help, `<a href="mailto:help@example.com">${question}</a>`)
    assert.match(named.html, /<a href="https:\/\/example\.com\/terms\?a=%22b%22&#38;c">Terms<\/a>/)
    assert.match(named.html, /<a href="https:\/\/example\.com\/privacy">Privacy<\/a>/)
  })

  test('its logo has the type of its content, and a policy that allows no script', () => {
    assert.equal(coloured.logo.text, svg)
    assert.partialDeepStrictEqual(coloured.logo.headers, {
      'content-type': 'image/svg+xml',
      'content-security-policy': NO_PAGE,
      'x-content-type-options': 'nosniff',
    })
  })

  test('the file names change with the files, and not with the name of the brand', () => {
    assert.equal(named.logoAddress, plain.logoAddress)
    assert.notEqual(coloured.logoAddress, plain.logoAddress)
  })

  test('a logo that cannot be used stops the start with the reason', async () => {
    const service = run({ DATA_DIR: folder, BRAND_LOGO_FILE: join(folder, 'missing.svg') })
    assert.deepEqual(await service.exit, { code: 1, signal: null })
    assert.match(service.output(), /BRAND_LOGO_FILE cannot be used: ENOENT.*missing\.svg/)
  })
})

test('the page behind a TLS proxy is answered over HTTPS only, as are its files', async () => {
  const service = await own(startTestService('sqlite', { TRUST_PROXY: '127.0.0.1/32' }))
  const forwarded = { 'X-Forwarded-For': '203.0.113.9', 'X-Forwarded-Proto': 'https' }
  const page = await get(service, '/login', forwarded)
  assert.equal(page.status, 200)
  const plain = { ...forwarded, 'X-Forwarded-Proto': 'http' }
  for (const path of ['/', '/login', '/docs', '/openapi.json', ...assetsOf(page.text)]) {
    const { status, json } = await get(service, path, plain)
    assert.deepEqual([status, json.error.code], [403, 'HTTPS_REQUIRED'])
  }
})
