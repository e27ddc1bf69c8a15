import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { acceptedCallback, acceptedReturnTo } from './return-to.ts'

const ORIGINS = ['https://app.example.com', 'http://localhost:3000', 'https://app.example.com:8443']

function testCases(
  accepted: string[],
  refused: unknown[],
  list: string[],
  find: (address: unknown, list: string[]) => string | null,
  toFound: (address: string) => string,
): void {
  for (const address of accepted) {
    test(`${address.slice(0, 60)} is accepted, if it is listed`, () => {
      assert.equal(find(address, list), toFound(address))
      assert.equal(find(address, []), null)
    })
  }
  for (const address of refused) {
    test(`${JSON.stringify(address)?.slice(0, 70)} is refused`, () => {
      assert.equal(find(address, list), null)
    })
  }
}

describe('the address to return to', () => {
  const after = (rests: string[]) => rests.map(rest => `https://app.example.com${rest}`)
  const AFTER_SCHEME = '://app.example.com/'
  const ACCEPTED = [
    ...after(['', '/', '/a/b?c=d&e=%2F#f', '?next=https://evil.example', '#//evil.example']),
    ...after(['//evil.example', '/@evil.example', '/..//evil.example', ':8443/x']),
    ...['http://localhost:3000/x', `https://app.example.com/${'a'.repeat(2024)}`],
  ]
  const REFUSED: unknown[] = [
    ...[undefined, null, '', ' ', 7, {}, ['https://app.example.com/', 'https://evil.example/']],
    ...[['https://app.example.com/'], '/', '/account', '//app.example.com/', '///app.example.com'],
    ...['https://evil.example/', 'https://evil.example/https://app.example.com/', 'https://'],
    ...after(['.evil.example/', 'evil.example', '@evil.example/', ':x@evil.example/', ':444/']),
    ...after([':443/', ':/', ':84431/', ':8443@evil.example/', '\\@evil.example/', '\\', './']),
    ...after(['/\\evil.example', '/ ', '/a b', '/\t', '\t.evil.example/', '/\r\nSet-Cookie: a=b']),
    ...after(['/\0', '/\u007f', '/\u00e9', '\uff0fevil.example', '/\u202e', '&x']),
    ...after(['%2eevil.example/', '%40evil.example/', `/${'a'.repeat(2025)}`]),
    ...['kate:secret@', 'kate@', '@', 'sub.'].map(it => `https://${it}app.example.com/`),
    ...['view-source:', 'blob:', ' ', '\t', '\u0001', '\ufeff'].map(it => it + after(['/'])),
    ...['http', 'HTTPS', 'ftp', 'ws', 'ht\ttps', 'javascript'].map(it => it + AFTER_SCHEME),
    ...['https://APP.example.com/', 'https:app.example.com', 'https:/app.example.com'],
    ...['https:///app.example.com/', 'https:\\\\app.example.com', '\\\\evil.example'],
    ...['https://example.com/', 'javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'vbscript:x'],
    ...['javascript://app.example.com/%0aalert(1)', 'data:text/html,<script>alert(1)</script>'],
    ...['file:///etc/passwd', 'null', 'about:blank', 'https%3A%2F%2Fapp.example.com%2F'],
    ...['https://\u0430pp.example.com/', 'https://app\u3002example.com/'],
    ...['https://[app.example.com]/', '/\\evil.example'],
  ]
  testCases(ACCEPTED, REFUSED, ORIGINS, acceptedReturnTo, address => address)
})

describe('the address that gets a code', () => {
  const CALLBACK = 'https://app.example.com/in'
  const CALLBACKS = ['https://app.example.net/', CALLBACK, 'http://localhost:3000/in']
  const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'

  const after = (rests: string[]) => rests.map(rest => CALLBACK + rest)
  const ACCEPTED = [
    ...CALLBACKS,
    ...after(['?', '?a=b', '?a=b&c=%2F', '?next=https://evil.example', '?a?b', '?Code=x']),
    ...after(['?xcode=x', '?a=code', '?code_id=x', '?a=1;xcode=2', `?${'a'.repeat(2021)}`]),
  ]
  const REFUSED: unknown[] = [
    ...[undefined, null, '', 7, [CALLBACK], 'https://app.example.com', 'https://app.example.com/'],
    ...['https://app.example.net', 'https://app.example.net/in', 'https://app.example.net?a=b'],
    ...['//in', '/%2Fin', '%2Fin', '/%69n', '/IN', './in', ':443/in', ':/in', '\\in'].map(
      rest => `https://app.example.com${rest}`,
    ),
    ...[
      ...['APP.example.com', 'kate@app.example.com', '@app.example.com'],
      ...['app.example.com@evil.example', 'app.example.com.evil.example'],
    ].map(host => `https://${host}/in`),
    ...['HTTPS://', 'http://', '//', 'https:/', ' https://'].map(it => `${it}app.example.com/in`),
    ...after(['/', '2', ';a', '%3Fa=b', '/../in', '#', '#a', '?a=b#c', '?a=b\t', '?é', '?code']),
    ...after(['?code=', '?code=x', '?a=b&code=x', '?a?&code=x', '?%63ode=x', '?a=1;code=2']),
    ...after(['?code;a', '?code[]=2', '?code%5B0%5D=2', '?[code]=2', '?+code=2']),
    ...after([`?${'a'.repeat(2022)}`]),
  ]
  test('a challenge must have the form of a digest', () => {
    for (const challenge of [
      ...[undefined, null, '', [CHALLENGE], CHALLENGE.slice(1), `${CHALLENGE}x`, `${CHALLENGE}=`],
      ...[CHALLENGE.replace('-', '+'), CHALLENGE.replace('-', 'é'), ` ${CHALLENGE.slice(1)}`],
      `${CHALLENGE}\n`,
    ]) {
      assert.equal(acceptedCallback(CALLBACK, challenge, CALLBACKS), null)
    }
  })

  const find = (address: unknown, list: string[]) => acceptedCallback(address, CHALLENGE, list)
  testCases(ACCEPTED, REFUSED, CALLBACKS, find, address => address.split('?')[0] ?? '')
})
