// Reads and discards the rest of a body after an answer that did not need it. If it reached a closed socket, the
// connection would be reset, and a caller that writes everything before it reads would lose the answer.
import type { IncomingMessage } from 'node:http'

export type DiscardLimits = { bytes: number; ms: number }

export function discardBody(request: IncomingMessage, { bytes, ms }: DiscardLimits): void {
  const { socket } = request
  const close = () => socket.destroy()
  // If the answer is the last one, Node has ended its side, and would close the connection once that is sent.
  socket.off('finish', socket.destroy)
  const end = socket.bytesRead + bytes
  const count = () => {
    if (socket.bytesRead > end) close()
  }
  const timer = setTimeout(close, ms).unref()
  socket.on('data', count)
  request.resume().once('end', () => {
    clearTimeout(timer)
    socket.off('data', count)
    if (socket.writableEnded) close()
  })
}
