// Describes a device by its User-Agent header, so that users can recognise their own devices.
import { text } from './dom.js'

/** The order matters: the header of a browser also names browsers further down. */
const BROWSERS = {
  Edge: /\bEdg(e|A|iOS)?\//,
  Opera: /\bOPR\//,
  Firefox: /\b(Firefox|FxiOS)\//,
  Chrome: /(Chrome|Chromium|CriOS)\//,
  Safari: /\bSafari\//,
  curl: /^curl\//,
}
const SYSTEMS = {
  Android: /\bAndroid\b/,
  iOS: /\b(iPhone|iPad)\b/,
  Windows: /\bWindows\b/,
  macOS: /\bMac OS X\b/,
  ChromeOS: /\bCrOS\b/,
  Linux: /\bLinux\b/,
}
const OTHER_MAX_CHARACTERS = 40

/** @param {string} userAgent */
export function describeDevice(userAgent) {
  const [browser, system] = [BROWSERS, SYSTEMS].map(patterns => {
    const found = Object.entries(patterns).find(([, pattern]) => pattern.test(userAgent))
    return found?.[0]
  })
  if (browser && system) return text('deviceOn', { browser, system })
  return browser ?? system ?? (userAgent.slice(0, OTHER_MAX_CHARACTERS) || text('unknownDevice'))
}
