// Describes a device by its User-Agent header, so that users can recognise their own devices.
import { iconOf } from './fragments.ts'
import type { Html } from './html.ts'
import type { Texts } from './texts.ts'

/** The order matters: the header of a browser also names browsers further down. */
const BROWSERS = {
  Edge: /\bEdg(e|A|iOS)?\//,
  Opera: /\bOPR\//,
  'Samsung Internet': /\bSamsungBrowser\//,
  Firefox: /\b(Firefox|FxiOS)\//,
  Chrome: /(Chrome|Chromium|CriOS)\//,
  Safari: /\bSafari\//,
}
const SYSTEMS = {
  Android: /\bAndroid\b/,
  iPhone: /\biPhone\b/,
  iPad: /\biPad\b/,
  Windows: /\bWindows\b/,
  Mac: /\bMac OS X\b/,
  ChromeOS: /\bCrOS\b/,
  Linux: /\bLinux\b/,
}
const HANDHELD = ['Android', 'iPhone', 'iPad']
const OTHER_MAX_CHARACTERS = 40

export function describeDevice(userAgent: string, { text }: Texts): { icon: Html; name: string } {
  const [browser, system] = [BROWSERS, SYSTEMS].map(
    patterns => Object.entries(patterns).find(([, pattern]) => pattern.test(userAgent))?.[0],
  )
  const icon = HANDHELD.includes(system ?? '') ? 'phone' : browser ? 'computer' : 'program'
  const name =
    browser && system
      ? text('deviceOn', { browser, system })
      : (browser ?? system ?? (nameOfProgram(userAgent) || text('unknownDevice')))
  return { icon: iconOf(icon), name }
}

/** "curl" for "curl/8.14.1"; anything else as it is. */
function nameOfProgram(userAgent: string): string {
  const name = /^[\w. -]+(?=\/)/.exec(userAgent)?.[0] ?? userAgent
  return name.slice(0, OTHER_MAX_CHARACTERS)
}
