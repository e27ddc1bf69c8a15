// A TCP connection on which packets can be lost: nothing arrives and nothing is closed, until it is mended.
import { once } from 'node:events'
import { createConnection, createServer, type Socket } from 'node:net'
import { freePort } from './postgres-server.ts'

/**
 * Forwards a new port of this machine to the host of the address. `url` is the address with that port. `replyTo` may answer
 * instead of the host.
 */
export async function startWire(
  address: string,
  replyTo: (chunk: Buffer) => Buffer | null = () => null,
) {
  const { hostname, port } = new URL(address)
  const sockets = new Set<Socket>()
  let isCut = false
  let mended = Promise.resolve()
  let mend = () => {}

  function forward(from: Socket, to: Socket): void {
    sockets.add(from)
    from.on('error', () => {})
    from.on('close', async () => {
      sockets.delete(from)
      await mended
      to.destroy()
    })
    if (isCut) from.pause()
  }
  const server = createServer(near => {
    const far = createConnection(Number(port), hostname)
    forward(near, far)
    forward(far, near)
    near.on('data', chunk => {
      const reply = replyTo(chunk)
      if (reply) near.write(reply)
      else far.write(chunk)
    })
    far.on('data', chunk => near.write(chunk))
  })
  const url = new URL(address)
  url.port = String(await freePort())
  server.listen(Number(url.port), '127.0.0.1')
  await once(server, 'listening')
  return {
    url: url.toString(),
    cut() {
      isCut = true
      mended = new Promise(resolve => {
        mend = resolve
      })
      for (const socket of sockets) socket.pause()
    },
    mend() {
      isCut = false
      mend()
      for (const socket of sockets) socket.resume()
    },
    async stop() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
