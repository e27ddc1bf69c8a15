// Small pieces that several pages have.
import { type Html, html } from './html.ts'
import type { Frame } from './layout.ts'

const ICONS = {
  computer: html`<rect x="3" y="4.5" width="18" height="12" rx="1.5"/><path d="M9 20h6"/>`,
  phone: html`<rect x="7" y="2.5" width="10" height="19" rx="2"/><path d="M11 18.5h2"/>`,
  key: html`<circle cx="8" cy="12" r="4.5"/><path d="M12.5 12H21v3.5M17 12v2.5"/>`,
  program: html`<rect x="3" y="4.5" width="18" height="15" rx="1.5"/><path d="m7 9.5 3 2.5-3 2.5M12.5 15H17"/>`,
  list: html`<rect x="4" y="3.5" width="16" height="17" rx="2"/><path d="M8 8.5h8M8 12h8M8 15.5h5"/>`,
}

export function iconOf(name: keyof typeof ICONS): Html {
  return html`<svg viewBox="0 0 24 24" aria-hidden="true">${ICONS[name]}</svg>`
}

/** The script shows an element with this only where the browser can use passkeys of this domain. */
export function forPasskeys({ page }: Frame): Html {
  return html` data-passkey="${page.passkeyRpId}" hidden`
}

/** The script writes it in the zone of the browser. */
export function timeOf(frame: Frame, moment: Date): Html {
  return html`<time datetime="${moment.toISOString()}" data-now="${frame.text('justNow')}">${frame.toTime(moment)}</time>`
}

/** A long email breaks before its @ rather than within a word. */
export function breakable(email: string): Html {
  const at = email.lastIndexOf('@')
  return html`${email.slice(0, at)}<wbr>${email.slice(at)}`
}

export function initialsOf(name: string): string {
  const words = name.split(/\s+/).filter(Boolean)
  const ends = words.length > 1 ? [words[0], words.at(-1)] : words
  // Arabic letters would be joined to a word.
  return ends.map(word => [...(word ?? '')][0]?.toUpperCase()).join('\u200c')
}
