// A line to PostgreSQL that delays each packet, as a distance does. A timer is not exact enough, so it has a thread of its
// own that pauses for a moment again and again while something is on its way.
import { once } from 'node:events'
import { createConnection, createServer, type Socket } from 'node:net'
import { parentPort, Worker, workerData } from 'node:worker_threads'

const NEVER = new Int32Array(new SharedArrayBuffer(4))
const PAUSE_MS = 0.01

/** Returns the address of the line; it lasts until `stop`. */
export async function delayLine(address: string, roundTripMs: number) {
  const worker = new Worker(new URL(import.meta.url), { workerData: { address, roundTripMs } })
  const [port] = await once(worker, 'message')
  const url = new URL(address)
  url.host = `127.0.0.1:${port}`
  return { url: url.href, stop: () => worker.terminate() }
}

async function forwardAll({ address, roundTripMs }: { address: string; roundTripMs: number }) {
  const underway: { dueMs: number; chunk: Buffer; to: Socket }[] = []

  function deliver(): void {
    while (underway[0] && underway[0].dueMs <= performance.now()) {
      const { to, chunk } = underway.shift() ?? {}
      to?.write(chunk ?? '')
    }
    if (underway.length === 0) return
    Atomics.wait(NEVER, 0, 0, PAUSE_MS)
    setImmediate(deliver)
  }
  function forward(from: Socket, to: Socket): void {
    from.setNoDelay()
    from.on('data', chunk => {
      underway.push({ dueMs: performance.now() + roundTripMs / 2, chunk, to })
      if (underway.length === 1) deliver()
    })
    from.on('close', () => to.end()).on('error', () => to.destroy())
  }

  const { hostname, port } = new URL(address)
  const server = createServer(near => {
    const far = createConnection(Number(port), hostname)
    forward(near, far)
    forward(far, near)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  parentPort?.postMessage(Object(server.address()).port)
}

if (parentPort) await forwardAll(workerData)
