// The operator's colour and logo: derives readable colours, and checks the logo.
import { readFile } from 'node:fs/promises'

const LOGO_MAX_BYTES = 64 * 1024
/** WCAG 2.2 AA, for text. */
const READABLE_CONTRAST = 4.5
// The backgrounds in login.css with the lowest contrast to a colour.
const LIGHT_BACKGROUND = '#f4f5f7'
const DARK_BACKGROUND = '#191c22'
/** With more contrast than this to its text, a colour is almost black or white: it can only come closer. */
const EXTREME_CONTRAST = 15

/** `brand` is for surfaces; the accents are mixed with black or white until they are readable as text. */
export function colorsOf(brand: string) {
  // Black or white always has a contrast of at least 4.58.
  const onBrand = contrastOf(brand, '#ffffff') >= READABLE_CONTRAST ? '#ffffff' : '#000000'
  const opposite = onBrand === '#ffffff' ? '#000000' : '#ffffff'
  const shade = contrastOf(brand, onBrand) > EXTREME_CONTRAST ? onBrand : opposite
  const tintLight = mix(brand, '#ffffff', 0.88)
  const tintDark = mix(brand, DARK_BACKGROUND, 0.8)
  return {
    brand,
    brandHover: mix(brand, shade, 0.12),
    onBrand,
    tintLight,
    tintDark,
    accentLight: readableOn([LIGHT_BACKGROUND, tintLight], brand, '#000000'),
    accentDark: readableOn([DARK_BACKGROUND, tintDark], brand, '#ffffff'),
  }
}

function readableOn(backgrounds: string[], color: string, towards: string): string {
  for (let share = 0; share < 1; share += 0.05) {
    const mixed = mix(color, towards, share)
    if (backgrounds.every(one => contrastOf(mixed, one) >= READABLE_CONTRAST)) return mixed
  }
  return towards
}

function mix(color: string, other: string, share: number): string {
  const others = channelsOf(other)
  const channels = channelsOf(color).map((value, i) => value + ((others[i] ?? 0) - value) * share)
  return `#${channels.map(value => Math.round(value).toString(16).padStart(2, '0')).join('')}`
}

/** The contrast ratio of WCAG, from 1 to 21. */
export function contrastOf(one: string, other: string): number {
  const [darker = 0, lighter = 0] = [luminanceOf(one), luminanceOf(other)].sort((a, b) => a - b)
  return (lighter + 0.05) / (darker + 0.05)
}

function luminanceOf(color: string): number {
  const [red = 0, green = 0, blue = 0] = channelsOf(color).map(value => {
    const share = value / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

function channelsOf(color: string): number[] {
  return [1, 3, 5].map(start => Number.parseInt(color.slice(start, start + 2), 16))
}

type Logo = { type: string; bytes: Buffer }

/** The type follows from the content, not from the file's name. */
const LOGO_TYPES: [type: string, start: RegExp][] = [
  ['image/png', /^\x89PNG\r\n/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/webp', /^RIFF.{4}WEBP/s],
  [
    'image/svg+xml',
    /^(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*|<!--(?:(?!-->).)*-->\s*|<!DOCTYPE[^>]*>\s*)*<svg[\s>]/s,
  ],
]

export async function loadLogo(file: string): Promise<Logo> {
  const bytes = await readFile(file)
  if (bytes.length > LOGO_MAX_BYTES) throw new Error(`${file} is larger than 64 KiB`)
  const text = bytes.toString('latin1')
  const [type] = LOGO_TYPES.find(([, start]) => start.test(text)) ?? []
  if (!type) throw new Error(`${file} is neither SVG, PNG, WebP nor JPEG`)
  return { type, bytes }
}
