// Every operation of both APIs, with every fault of every call to the store: only documented answers, no half-written
// fact, and the next request works.
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { type AdminService, startAdminService } from '../admin-service.ts'
import { freePort } from '../postgres-server.ts'
import { adminRequests } from './admin-requests.ts'
import { createFaults, injectIntoDrivers } from './faults.ts'
import { CALLBACK, loginRequests, RENEWING } from './login-requests.ts'
import { IS_FULL, proveAll } from './loop.ts'
import { createRequests, judgeRequests, type Request, type Requests } from './requests.ts'
import { sessionRequests } from './session-requests.ts'

/** A result of the readiness check is shared for a second, by a timer of this process. */
const READINESS_SHARED_MS = 1_100

export function proveRequests(engine: EngineName): void {
  describe(`faults of requests on ${engine}`, () => {
    const faults = createFaults(['maintenance.purge', 'maintenance.readClock'])
    let service: AdminService
    let requests: Requests
    let opsPort: number
    before(async () => {
      opsPort = await freePort()
      const env = { OPS_PORT: String(opsPort), CODE_CALLBACKS: CALLBACK }
      service = await startAdminService(engine, env, faults.wrap)
      requests = createRequests(service)
    })
    after(() => service.stop())

    const readiness: Request = {
      title: 'GET /readyz',
      success: 200,
      async prepare() {
        return {
          email: null,
          async run() {
            await sleep(READINESS_SHARED_MS)
            const answer = await fetch(`http://127.0.0.1:${opsPort}/readyz`)
            return { status: answer.status, text: await answer.text() }
          },
        }
      },
    }

    const suites = {
      'public API': () => [...loginRequests(requests), ...sessionRequests(requests), readiness],
      'admin API': () => adminRequests(requests),
    }
    for (const [title, list] of Object.entries(suites)) {
      test(`every operation of the store, ${title}`, context =>
        proveAll(
          context,
          `${title} on ${engine}, operations of the store`,
          list(),
          faults,
          judgeRequests(requests),
          'operation',
        ))
      if (!IS_FULL) continue
      test(`every statement, ${title}`, async context => {
        const restore = injectIntoDrivers(faults)
        after(restore)
        await proveAll(
          context,
          `${title} on ${engine}, statements`,
          list().filter(({ title }) => title !== RENEWING),
          faults,
          judgeRequests(requests),
          'statement',
        )
        restore()
      })
    }
  })
}
