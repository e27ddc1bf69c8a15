import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { colorsOf, contrastOf, loadLogo } from './brand.ts'

const STEPS = [0, 0x33, 0x66, 0x77, 0x99, 0xcc, 0xff]
const hex = (value: number) => value.toString(16).padStart(2, '0')

describe('the colour of a brand', () => {
  test('has the contrast that WCAG defines', () => {
    assert.equal(contrastOf('#000000', '#ffffff'), 21)
    assert.equal(contrastOf('#777777', '#ffffff').toFixed(2), '4.48')
  })

  test('leaves text readable on it, and is readable on the page', async () => {
    const css = await readFile(join(import.meta.dirname, '../../page/login.css'), 'utf8')
    // The first rule is for light, the second for dark.
    const colorsNamed = (name: string) =>
      [...css.matchAll(RegExp(`--${name}: (#\\w+)`, 'g'))].map(([, color = '']) => color)
    const pairs = ['background', 'card'].map(colorsNamed)
    assert.deepEqual(
      pairs.map(pair => pair.length),
      [2, 2],
    )
    for (const red of STEPS) {
      for (const green of STEPS) {
        for (const blue of STEPS) {
          const brand = `#${hex(red)}${hex(green)}${hex(blue)}`
          const { onBrand, accentLight, accentDark, ...others } = colorsOf(brand)
          const { brandHover, tintLight, tintDark } = others
          for (const surface of [brand, brandHover]) {
            assert.ok(contrastOf(surface, onBrand) >= 4.5, `${onBrand} on ${surface}`)
            assert.ok(surface === brand || contrastOf(surface, brand) > 1, brand)
          }
          for (const [light = '', dark = ''] of [...pairs, [tintLight, tintDark]]) {
            assert.ok(contrastOf(accentLight, light) >= 4.5, `${accentLight} on ${light}`)
            assert.ok(contrastOf(accentDark, dark) >= 4.5, `${accentDark} on ${dark}`)
          }
        }
      }
    }
  })

  test('stays unchanged if it is readable', () => {
    assert.equal(colorsOf('#3451b2').accentLight, '#3451b2')
    assert.equal(colorsOf('#ffd43b').accentDark, '#ffd43b')
  })
})

describe('the logo of a brand', () => {
  const FILES: [name: string, bytes: string, type: string | null][] = [
    ['a PNG', '\x89PNG\r\n\x1a\n…', 'image/png'],
    ['a JPEG', '\xff\xd8\xff\xe0…', 'image/jpeg'],
    ['a WebP', 'RIFF\x01\x02\x03\x04WEBPVP8 ', 'image/webp'],
    ['an SVG', '<svg xmlns="http://www.w3.org/2000/svg"/>', 'image/svg+xml'],
    [
      'an SVG after a declaration and a comment',
      '\xef\xbb\xbf<?xml version="1.0"?>\n<!-- <a> -->\n<svg>',
      'image/svg+xml',
    ],
    ['a page', '<!doctype html><svg></svg>', null],
    ['a page in XML', '<?xml version="1.0"?><html><svg/></html>', null],
    ['only comments', '<!-- -->'.repeat(8_000), null],
    ['a GIF', 'GIF89a', null],
    ['an empty file', '', null],
    ['64 KiB', `<svg>${' '.repeat(65_531)}`, 'image/svg+xml'],
    ['more than 64 KiB', `<svg>${' '.repeat(65_532)}`, null],
  ]
  for (const [name, bytes, type] of FILES) {
    test(`${name} is ${type ? `accepted as ${type}` : 'refused'}`, async context => {
      const folder = await mkdtemp(join(tmpdir(), 'login-logo-'))
      context.after(() => rm(folder, { recursive: true }))
      const file = join(folder, 'logo')
      await writeFile(file, bytes, 'latin1')
      if (type) assert.equal((await loadLogo(file)).type, type)
      else await assert.rejects(loadLogo(file), /\/logo is (neither|larger)/)
    })
  }

  test('a folder is refused', () => assert.rejects(loadLogo(tmpdir()), { code: 'EISDIR' }))
})
