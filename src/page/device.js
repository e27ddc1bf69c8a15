// Describes a device by its User-Agent header, so that users can recognise their own devices.
import { text } from './dom.js'

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

/**
 * The icon is the id of a symbol in login.html.
 * @param {string} userAgent
 */
export function describeDevice(userAgent) {
  const [browser, system] = [BROWSERS, SYSTEMS].map(patterns => {
    const found = Object.entries(patterns).find(([, pattern]) => pattern.test(userAgent))
    return found?.[0]
  })
  const icon = HANDHELD.includes(system ?? '') ? 'phone' : browser ? 'computer' : 'program'
  if (browser && system) return { icon, name: text('deviceOn', { browser, system }) }
  return { icon, name: browser ?? system ?? nameOfProgram(userAgent) }
}

/**
 * "curl" for "curl/8.14.1"; anything else as it is.
 * @param {string} userAgent
 */
function nameOfProgram(userAgent) {
  const name = /^[\w. -]+(?=\/)/.exec(userAgent)?.[0] ?? userAgent
  return name.slice(0, OTHER_MAX_CHARACTERS) || text('unknownDevice')
}
