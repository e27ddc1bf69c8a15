// The second listener, for operators' eyes only: is the process alive, can it take logins.
import { createServer, type Server } from 'node:http'

export type OpsDeps = {
  /** Rejects while the service cannot serve. */
  checkReady: () => Promise<void>
  onNotReady: (error: unknown) => void
}

export function createOpsServer({ checkReady, onNotReady }: OpsDeps): Server {
  return createServer(async (request, response) => {
    const answer = (status: number, word: string) =>
      response
        .writeHead(status, { 'Content-Type': 'text/plain', 'Cache-Control': 'no-store' })
        .end(`${word}\n`)

    if (request.method !== 'GET' && request.method !== 'HEAD')
      return answer(405, 'method not allowed')
    switch (request.url?.split('?')[0]) {
      case '/livez':
        return answer(200, 'alive')
      case '/readyz':
        try {
          await checkReady()
          return answer(200, 'ready')
        } catch (error) {
          onNotReady(error)
          return answer(503, 'not ready')
        }
      default:
        return answer(404, 'not found')
    }
  })
}
