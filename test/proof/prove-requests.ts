// Every operation of both APIs, with every fault of every call to the store: only documented answers, no half-written
// fact, and the next request works.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { type AdminService, startAdminService } from '../admin-service.ts'
import { freePort } from '../postgres-server.ts'
import { adminRequests } from './admin-requests.ts'
import { createFaults, injectIntoDrivers } from './faults.ts'
import { addTally, NO_CASES, proveOperation } from './loop.ts'
import { CALLBACK, publicRequests } from './public-requests.ts'
import { createRequests, judgeRequests, type Request, type Requests } from './requests.ts'

/** A result of the readiness check is shared for a second, by a timer of this process. */
const READINESS_SHARED_MS = 1_100

export function proveRequests(engine: EngineName): void {
  describe(`faults of requests on ${engine}`, () => {
    const faults = createFaults(['maintenance.purge', 'maintenance.readClock'])
    const tally = { ...NO_CASES }
    let service: AdminService
    let requests: Requests
    let opsPort: number
    before(async () => {
      opsPort = await freePort()
      const env = { OPS_PORT: String(opsPort), CODE_CALLBACKS: CALLBACK }
      service = await startAdminService(engine, env, faults.wrap)
      requests = createRequests(service)
    })
    after(async () => {
      await service.stop()
      process.stdout.write(`${engine} ${JSON.stringify(tally)}\n`)
    })

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
      'the public API': () => [...publicRequests(requests), readiness],
      'the admin API': () => adminRequests(requests),
    }
    const units =
      process.env.UNIT === 'statement' ? (['statement'] as const) : (['operation'] as const)
    for (const [title, list] of Object.entries(suites)) {
      for (const unit of units) {
        test(`each ${unit} of ${title}`, async context => {
          const restore = unit === 'statement' ? injectIntoDrivers(faults) : () => {}
          try {
            for (const request of list().filter(it => it.title.includes(process.env.ONLY ?? ''))) {
              await context.test(request.title, async () => {
                const startMs = performance.now()
                const found = await proveOperation(faults, request, judgeRequests(requests), unit)
                assert.ok(found.cases > 0)
                addTally(tally, found)
                process.stdout.write(
                  `${engine} ${request.title} ${JSON.stringify(found)} ${Math.round(performance.now() - startMs)}\n`,
                )
              })
            }
          } finally {
            restore()
          }
        })
      }
    }
  })
}
