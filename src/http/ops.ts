// The second listener, for operators only: whether the process is alive, whether it can serve logins, and
// metrics.
import { createServer, type Server } from 'node:http'
import type { Metrics } from '../metrics/metrics.ts'

/** For this long, calls share the last outcome: more frequent probes cost no more writes. */
const SHARED_MS = 1_000

/** Runs one check at a time and at most one per second, for any number of calls. */
export function shareChecks(
  check: () => Promise<void>,
  onFailure: (error: unknown) => void,
  onRecovery: () => void,
): () => Promise<void> {
  let shared: Promise<void> | null = null
  let isFailing = false
  const forgetLater = () => {
    setTimeout(() => {
      shared = null
    }, SHARED_MS).unref()
  }
  return () => {
    if (!shared) {
      shared = check()
      shared
        .then(
          () => {
            if (isFailing) onRecovery()
            isFailing = false
          },
          error => {
            isFailing = true
            onFailure(error)
          },
        )
        .finally(forgetLater)
    }
    return shared
  }
}

type OpsDeps = {
  metrics: Pick<Metrics, 'text' | 'contentType'>
  /** Rejects while the service cannot serve. */
  checkReady: () => Promise<void>
}

export function createOpsServer({ metrics, checkReady }: OpsDeps): Server {
  return createServer(async (request, response) => {
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
        return answer(200, await metrics.text(), metrics.contentType)
      default:
        return answer(404, 'not found')
    }
  })
}
