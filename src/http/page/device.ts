// Describes a device by its User-Agent header, so that users can recognise their own devices.
import { type Html, html } from './html.ts'
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

const ICONS = {
  computer: html`<rect x="3" y="4.5" width="18" height="12" rx="1.5"/><path d="M9 20h6"/>`,
  phone: html`<rect x="7" y="2.5" width="10" height="19" rx="2"/><path d="M11 18.5h2"/>`,
  program: html`<rect x="3" y="4.5" width="18" height="15" rx="1.5"/><path d="m7 9.5 3 2.5-3 2.5M12.5 15H17"/>`,
}

export function describeDevice(userAgent: string, { text }: Texts): { icon: Html; name: string } {
  const [browser, system] = [BROWSERS, SYSTEMS].map(
    patterns => Object.entries(patterns).find(([, pattern]) => pattern.test(userAgent))?.[0],
  )
  const icon = HANDHELD.includes(system ?? '') ? 'phone' : browser ? 'computer' : 'program'
  const name =
    browser && system
      ? text('deviceOn', { browser, system })
      : (browser ?? system ?? (nameOfProgram(userAgent) || text('unknownDevice')))
  return { icon: html`<svg viewBox="0 0 24 24" aria-hidden="true">${ICONS[icon]}</svg>`, name }
}

/** "curl" for "curl/8.14.1"; anything else as it is. */
function nameOfProgram(userAgent: string): string {
  const name = /^[\w. -]+(?=\/)/.exec(userAgent)?.[0] ?? userAgent
  return name.slice(0, OTHER_MAX_CHARACTERS)
}
