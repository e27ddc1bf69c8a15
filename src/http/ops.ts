// The second listener, for operators only: whether the process is alive, whether it can serve logins, and
// metrics.
import { createServer, type Server } from 'node:http'
import type { Log } from '../log/log.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { limitConnections, TIMEOUTS } from './connection/connections.ts'
import { trustProxies } from './request/client-address.ts'

/** Probes and scrapers need a few. */
const CONNECTIONS = { total: 128, perClient: 128 }

type OpsDeps = {
  metrics: Pick<Metrics, 'text' | 'contentType'>
  /** Rejects while the service cannot serve. */
  checkReady: () => Promise<void>
  log: Log
}

export function createOpsServer({ metrics, checkReady, log }: OpsDeps): Server {
  const server = createServer(TIMEOUTS, async (request, response) => {
    const answer = (status: number, text: string, type = 'text/plain') =>
      response
        .writeHead(status, { 'Content-Type': type, 'Cache-Control': 'no-store' })
        .end(text.endsWith('\n') ? text : `${text}\n`)

    if (request.method !== 'GET' && request.method !== 'HEAD')
      return answer(405, 'method not allowed')
    switch (request.url?.split('?')[0]) {
      case '/livez':
        return answer(200, 'alive')
      case '/readyz':
        try {
          await checkReady()
          return answer(200, 'ready')
        } catch {
          return answer(503, 'not ready')
        }
      case '/metrics':
        try {
          return answer(200, await metrics.text(), metrics.contentType)
        } catch (error) {
          log.error({ event: 'metrics.failed', err: error })
          return answer(500, 'a metric cannot be read: see metrics.failed in the log')
        }
      default:
        return answer(404, 'not found')
    }
  })
  limitConnections(server, trustProxies([]), { connections: CONNECTIONS })
  return server
}
