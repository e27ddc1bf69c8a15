import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readQrCode } from '../../../test/support/qr-code.ts'
import { qrCode, toOtpAuthUri } from './qr-code.ts'

const SECRET = 'QZ4KM7TDWX2HRB5N3VGLCYEJ6UAFS7PO'

test('a QR code says what it was made of, with four light modules around it', () => {
  const uri = toOtpAuthUri('Login Service', 'kate@example.com', SECRET)
  assert.equal(
    uri,
    `otpauth://totp/Login%20Service:kate%40example.com?secret=${SECRET}&issuer=Login%20Service`,
  )
  // 49 modules: 4 pixels each, in the 196 of the page.
  assert.deepEqual(readQrCode(qrCode(uri, 'label').text), { text: uri, size: 49, margin: 4 })
})

test('a name of any language and a long email are read as they were', () => {
  const names = ['Ärger & Co', 'شيرين', '株式会社', '<b>"\'', 'a+b=c?d#e%20']
  for (const issuer of names) {
    const email = `${'long'.repeat(14)}@${'domain.'.repeat(20)}example.com`
    const { text } = readQrCode(qrCode(toOtpAuthUri(issuer, email, SECRET), 'label').text)
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
  assert.equal(readQrCode(qrCode(longest, 'label').text).text, longest)
})
