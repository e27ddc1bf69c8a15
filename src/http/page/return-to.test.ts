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
  const ACCEPTED = [
    ...['https://app.example.com', 'https://app.example.com/'],
    'https://app.example.com/a/b?c=d&e=%2F#f',
    'https://app.example.com?next=https://evil.example',
    ...['https://app.example.com#//evil.example', 'https://app.example.com//evil.example'],
    ...['https://app.example.com/@evil.example', 'https://app.example.com/..//evil.example'],
    ...['https://app.example.com:8443/x', 'http://localhost:3000/x'],
    `https://app.example.com/${'a'.repeat(2024)}`,
  ]
  const REFUSED: unknown[] = [
    ...[undefined, null, '', ' ', 7, {}, ['https://app.example.com/', 'https://evil.example/']],
    ...[['https://app.example.com/'], '/', '/account', '//app.example.com/', '///app.example.com'],
    ...['https://evil.example/', 'https://evil.example/https://app.example.com/', 'https://'],
    ...['https://app.example.com.evil.example/', 'https://app.example.comevil.example'],
    ...['https://app.example.com@evil.example/', 'https://app.example.com:x@evil.example/'],
    ...['https://kate:secret@app.example.com/', 'https://kate@app.example.com/'],
    ...['https://@app.example.com', 'https://app.example.com:444/', 'https://app.example.com:443/'],
    ...['https://app.example.com:/', 'https://app.example.com:84431/'],
    ...['https://app.example.com:8443@evil.example/', 'http://app.example.com/'],
    ...['HTTPS://app.example.com/', 'https://APP.example.com/', 'https:app.example.com'],
    ...['https:/app.example.com', 'https:///app.example.com/', 'https:\\\\app.example.com'],
    ...['https://app.example.com\\@evil.example/', 'https://app.example.com\\'],
    ...['https://app.example.com/\\evil.example', '\\\\evil.example', '/\\evil.example'],
    ...['https://app.example.com./', 'https://sub.app.example.com/', 'https://example.com/'],
    ...['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'javascript://app.example.com/%0aalert(1)'],
    ...['data:text/html,<script>alert(1)</script>', 'blob:https://app.example.com/x'],
    ...['file:///etc/passwd', 'vbscript:x', 'ftp://app.example.com/', 'ws://app.example.com/'],
    ...['view-source:https://app.example.com', ' https://app.example.com/'],
    ...['https://app.example.com/ ', 'https://app.example.com/a b', '\thttps://app.example.com/'],
    ...['ht\ttps://app.example.com/', 'https://app.example.com/\t'],
    ...['https://app.example.com\t.evil.example/', 'https://app.example.com/\r\nSet-Cookie: a=b'],
    ...['https://app.example.com/\0', 'https://app.example.com/\u007f'],
    ...['\u0001https://app.example.com/', 'https://app.example.com/\u00e9'],
    ...['https://\u0430pp.example.com/', 'https://app\u3002example.com/'],
    ...['https://app.example.com\uff0fevil.example', 'https://app.example.com/\u202e'],
    ...['\ufeffhttps://app.example.com', 'null', 'about:blank', 'https%3A%2F%2Fapp.example.com%2F'],
    ...['https://app.example.com%2eevil.example/', 'https://app.example.com%40evil.example/'],
    ...['https://[app.example.com]/', 'https://app.example.com&x'],
    `https://app.example.com/${'a'.repeat(2025)}`,
  ]
  testCases(ACCEPTED, REFUSED, ORIGINS, acceptedReturnTo, address => address)
})

describe('the address that gets a code', () => {
  const CALLBACK = 'https://app.example.com/in'
  const CALLBACKS = ['https://app.example.net/', CALLBACK, 'http://localhost:3000/in']
  const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'

  const ACCEPTED = [
    ...CALLBACKS,
    ...['?', '?a=b', '?a=b&c=%2F', '?next=https://evil.example', '?a?b', '?Code=x', '?xcode=x'].map(
      query => CALLBACK + query,
    ),
    ...['?a=code', '?code_id=x', '?a=1;xcode=2'].map(query => CALLBACK + query),
    `${CALLBACK}?${'a'.repeat(2021)}`,
  ]
  const REFUSED: unknown[] = [
    ...[undefined, null, '', 7, [CALLBACK], 'https://app.example.com', 'https://app.example.com/'],
    ...['https://app.example.net', 'https://app.example.net/in', 'https://app.example.net?a=b'],
    ...[`${CALLBACK}/`, `${CALLBACK}2`, `${CALLBACK};a`, `${CALLBACK}%3Fa=b`, `${CALLBACK}/../in`],
    ...['//in', '/%2Fin', '%2Fin', '/%69n', '/IN', './in', ':443/in', ':/in'].map(
      rest => `https://app.example.com${rest}`,
    ),
    ...['https://APP.example.com/in', 'HTTPS://app.example.com/in', 'http://app.example.com/in'],
    '//app.example.com/in',
    ...['https://kate@app.example.com/in', 'https://@app.example.com/in'],
    ...['https://app.example.com@evil.example/in', 'https://app.example.com.evil.example/in'],
    ...['https://app.example.com\\in', 'https:/app.example.com/in', ' https://app.example.com/in'],
    ...[`${CALLBACK}#`, `${CALLBACK}#a`, `${CALLBACK}?a=b#c`, `${CALLBACK}?a=b\t`, `${CALLBACK}?é`],
    ...['?code', '?code=', '?code=x', '?a=b&code=x', '?a?&code=x', '?%63ode=x'].map(
      query => CALLBACK + query,
    ),
    ...['?a=1;code=2', '?code;a', '?code[]=2', '?code%5B0%5D=2', '?[code]=2', '?+code=2'].map(
      query => CALLBACK + query,
    ),
    `${CALLBACK}?${'a'.repeat(2022)}`,
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
