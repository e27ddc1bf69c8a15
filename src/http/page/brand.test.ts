import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { ownFolder } from '../../../test/support/own.ts'
import { colorsOf, contrastOf, loadLogo } from './brand.ts'

const STEPS = ['00', '33', '66', '77', '99', 'cc', 'ff']
const BRANDS = STEPS.flatMap(red =>
  STEPS.flatMap(green => STEPS.map(blue => `#${red}${green}${blue}`)),
)

const css = await readFile(join(import.meta.dirname, '../../page/login.css'), 'utf8')
/** For light and for dark. */
const colorsNamed = (name: string) =>
  [...css.matchAll(RegExp(`--${name}: (#\\w+)`, 'g'))].map(([, color = '']) => color)

describe('the colour of a brand', () => {
  test('has the contrast that WCAG defines', () => {
    assert.equal(contrastOf('#000000', '#ffffff'), 21)
    assert.equal(contrastOf('#777777', '#ffffff').toFixed(2), '4.48')
  })

  test('leaves text readable on it, and is readable on the page', () => {
    const pairs = ['background', 'card'].map(colorsNamed)
    assert.ok(pairs.every(pair => pair.length === 2))
    for (const brand of BRANDS) {
      const { onBrand, accentLight, accentDark, brandHover, tintLight, tintDark } = colorsOf(brand)
      for (const surface of [brand, brandHover]) {
        assert.ok(contrastOf(surface, onBrand) >= 4.5, `${onBrand} on ${surface}`)
        assert.ok(surface === brand || contrastOf(surface, brand) > 1, brand)
      }
      for (const [light = '', dark = ''] of [...pairs, [tintLight, tintDark]]) {
        assert.ok(contrastOf(accentLight, light) >= 4.5, `${accentLight} on ${light}`)
        assert.ok(contrastOf(accentDark, dark) >= 4.5, `${accentDark} on ${dark}`)
      }
    }
  })

  test('stays unchanged if it is readable', () => {
    assert.equal(colorsOf('#3451b2').accentLight, '#3451b2')
    assert.equal(colorsOf('#ffd43b').accentDark, '#ffd43b')
  })
})

test('small text, such as the help and the footer, has the contrast of WCAG AAA', () => {
  for (const ground of ['background', 'card', 'hover']) {
    const pairs = colorsNamed(ground).map(
      (color, i) => [color, colorsNamed('quiet')[i] ?? ''] as const,
    )
    assert.equal(pairs.length, 2)
    for (const pair of pairs) assert.ok(contrastOf(...pair) >= 7, `${ground}: ${pair}`)
  }
})

describe('the logo of a brand', () => {
  const XML = '<?xml version="1.0"?>'
  const FILES: [name: string, bytes: string, type: string | null][] = [
    ['a PNG', '\x89PNG\r\n\x1a\n…', 'image/png'],
    ['a JPEG', '\xff\xd8\xff\xe0…', 'image/jpeg'],
    ['a WebP', 'RIFF\x01\x02\x03\x04WEBPVP8 ', 'image/webp'],
    ['an SVG', '<svg xmlns="http://www.w3.org/2000/svg"/>', 'image/svg+xml'],
    ['an SVG below others', `\xef\xbb\xbf${XML}\n<!-- <a> -->\n<svg>`, 'image/svg+xml'],
    ['a page', '<!doctype html><svg></svg>', null],
    ['a page in XML', `${XML}<html><svg/></html>`, null],
    ['only comments', '<!-- -->'.repeat(8_000), null],
    ['a GIF', 'GIF89a', null],
    ['an empty file', '', null],
    ['64 KiB', `<svg>${' '.repeat(65_531)}`, 'image/svg+xml'],
    ['more than 64 KiB', `<svg>${' '.repeat(65_532)}`, null],
  ]
  for (const [name, bytes, type] of FILES) {
    test(`${name} is ${type ? `accepted as ${type}` : 'refused'}`, async () => {
      const file = join(await ownFolder(), 'logo')
      await writeFile(file, bytes, 'latin1')
      if (type) assert.equal((await loadLogo(file)).type, type)
      else await assert.rejects(loadLogo(file), /\/logo is (neither|larger)/)
    })
  }

  test('a folder is refused', () => assert.rejects(loadLogo(tmpdir()), { code: 'EISDIR' }))
})
