// The QR code by which an authenticator app learns a secret.
import { encodeQR } from 'qr'
import { type Html, html } from './html.ts'

/** Scanners need this many light modules around it. */
const MARGIN = 4
/** A QR code has room for 2,953 bytes, and a form may send any email. */
const NAME_MAX_BYTES = 1000

/** Algorithm, digits and period are what every app assumes; without them the picture is smaller. */
export function toOtpAuthUri(issuer: string, email: string, secret: string): string {
  // A colon would end the name.
  const [name, account] = [issuer, email].map(text =>
    encodeURIComponent(text.replaceAll(':', ' ')).slice(0, NAME_MAX_BYTES),
  )
  return `otpauth://totp/${name}:${account}?secret=${secret}&issuer=${name}`
}

/** A screen is not damaged as paper is, so the least correction is enough. Each run of dark modules is one rectangle. */
export function qrCode(text: string, label: string): Html {
  const rows = encodeQR(text, 'raw', { ecc: 'low', border: MARGIN })
  const path = rows.flatMap((row, y) => {
    const line = row.map(isDark => (isDark ? '#' : ' ')).join('')
    return [...line.matchAll(/#+/g)].map(
      ({ index, 0: run }) => `M${index} ${y}h${run.length}v1h-${run.length}z`,
    )
  })
  const size = rows.length
  return html`<svg class="qr" viewBox="0 0 ${size} ${size}" role="img" aria-label="${label}"><path d="${path.join('')}"/></svg>`
}
