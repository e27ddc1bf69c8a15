import decodeQR from 'qr/decode.js'

/** Paints the rectangles of the QR code in a page, four pixels per module, and reads the picture. */
export function readQrCode(html: string): { text: string; size: number; margin: number } {
  const [, side, path = ''] =
    /class="qr" viewBox="0 0 (\d+) \1".*?<path d="([^"]*)"/s.exec(html) ?? []
  const size = Number(side)
  const width = size * 4
  const data = new Uint8Array(width * width * 4).fill(255)
  const runs = [...path.matchAll(/M(\d+) (\d+)h(\d+)v1h-\3z/g)].map(run => run.slice(1).map(Number))
  for (const [x = 0, y = 0, length = 0] of runs) {
    for (let row = y * 4; row < y * 4 + 4; row++) {
      for (let column = x * 4; column < (x + length) * 4; column++) {
        const pixel = (row * width + column) * 4
        data.fill(0, pixel, pixel + 3)
      }
    }
  }
  const margin = Math.min(...runs.map(([x = 0, y = 0]) => Math.min(x, y)))
  return { text: decodeQR({ width, height: width, data }), size, margin }
}
