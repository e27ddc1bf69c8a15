import assert from 'node:assert/strict'
import { test } from 'node:test'
import decodeQR from 'qr/decode.js'
import { qrCode, toOtpAuthUri } from './qr-code.ts'

const SECRET = 'QZ4KM7TDWX2HRB5N3VGLCYEJ6UAFS7PO'

/** Paints the rectangles of a code, four pixels per module, and reads the picture. */
function read(svg: string): { text: string; size: number; margin: number } {
  const size = Number(/viewBox="0 0 (\d+) \1"/.exec(svg)?.[1])
  const width = size * 4
  const data = new Uint8Array(width * width * 4).fill(255)
  const runs = [...svg.matchAll(/M(\d+) (\d+)h(\d+)v1h-\3z/g)].map(run => run.slice(1).map(Number))
  for (const [x = 0, y = 0, length = 0] of runs) {
    for (let row = y * 4; row < y * 4 + 4; row++) {
      for (let column = x * 4; column < (x + length) * 4; column++) {
        data.fill(0, (row * width + column) * 4, (row * width + column) * 4 + 3)
      }
    }
  }
  const margin = Math.min(...runs.map(([x = 0, y = 0]) => Math.min(x, y)))
  return { text: decodeQR({ width, height: width, data }), size, margin }
}

test('a QR code says what it was made of, with four light modules around it', () => {
  const uri = toOtpAuthUri('Login Service', 'kate@example.com', SECRET)
  assert.equal(
    uri,
    `otpauth://totp/Login%20Service:kate%40example.com?secret=${SECRET}&issuer=Login%20Service`,
  )
  // 49 modules: 4 pixels each, in the 196 of the page.
  assert.deepEqual(read(qrCode(uri, 'label').text), { text: uri, size: 49, margin: 4 })
})

test('a name of any language and a long email are read as they were', () => {
  const names = ['Ärger & Co', 'شيرين', '株式会社', '<b>"\'', 'a+b=c?d#e%20']
  for (const issuer of names) {
    const email = `${'long'.repeat(14)}@${'domain.'.repeat(20)}example.com`
    const { text } = read(qrCode(toOtpAuthUri(issuer, email, SECRET), 'label').text)
    const { pathname, searchParams } = new URL(text)
    assert.deepEqual(pathname.split('/').at(-1)?.split(':').map(decodeURIComponent), [
      issuer,
      email,
    ])
    assert.deepEqual(Object.fromEntries(searchParams), { secret: SECRET, issuer })
  }
})

test('a colon ends no name, and the longest email that a form can send has a code', () => {
  assert.match(toOtpAuthUri('A:B', 'a:b@c.de', SECRET), /^otpauth:\/\/totp\/A%20B:a%20b%40c\.de\?/)
  const longest = toOtpAuthUri('株'.repeat(60), '😀'.repeat(4000), SECRET)
  assert.equal(read(qrCode(longest, 'label').text).text, longest)
})
