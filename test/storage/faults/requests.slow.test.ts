// Every operation of both APIs, with every fault of every call to the store: only documented answers, no half-written
// fact, and the next request works.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Document } from '../../../src/http/openapi/document.ts'
import { keepConnection } from '../../operation/kept-connection.ts'
import { startAdminService } from '../../support/admin-service.ts'
import { ENGINES } from '../../support/engines.ts'
import { freePort } from '../../support/postgres-server.ts'
import { IS_FULL } from '../../support/proof.ts'
import { administration } from './administration.ts'
import { createFaults, injectIntoDrivers } from './faults.ts'
import { type Operations, proveAll } from './loop.ts'
import { CALLBACK, publicRequests, RENEWING } from './public-requests.ts'
import { createRequests, judgeRequests, type Response } from './requests.ts'

/** The described operations that do not use the store. */
const WITHOUT_STORE = ['get /api/v1/auth/passkey-challenge', 'get /.well-known/jwks.json']
/** A result of the readiness check is shared for a second, by a timer of this process. */
const READINESS_SHARED_MS = 1_100

for (const engine of ENGINES) {
  test(`faults of requests on ${engine}`, async t => {
    const faults = createFaults(['maintenance.purge', 'maintenance.readClock'])
    const opsPort = await freePort()
    const env = { OPS_PORT: String(opsPort), CODE_CALLBACKS: CALLBACK }
    const service = await startAdminService(engine, env, faults.wrap)
    const database = await keepConnection(service.database)
    after(database.close)
    after(service.stop)
    const requests = createRequests({ ...service, database })
    const { newAddress } = requests

    /** Each makes the readiness check, which writes. */
    const ofOperators: Operations<Response> = Object.fromEntries(
      ['/readyz', '/metrics'].map(path => {
        async function run() {
          await sleep(READINESS_SHARED_MS)
          const answer = await fetch(`http://127.0.0.1:${opsPort}${path}`)
          return { status: answer.status, text: await answer.text() }
        }
        return [`GET ${path}`, async () => ({ run })]
      }),
    )
    const suites: Record<string, Operations<Response>> = {
      'public API': { ...publicRequests(requests), ...ofOperators },
      // From another address each time: reads of the audit are recorded once per address.
      'admin API': administration<Response>(requests.subjects, 'request', words => {
        const [, method = '', path = '', body] = /^(\S+) (\S+)(?: (.*))?$/.exec(words) ?? []
        return service.admin(method, path, body && JSON.parse(body), { from: newAddress() })
      }),
    }

    await t.test('every operation that the documents of both APIs describe is proven', async () => {
      const document = await service.call({ method: 'GET', path: '/openapi.json' })
      const described: Record<string, Document> = {
        'public API': JSON.parse(document.text),
        'admin API': service.described.document,
      }
      const missing = Object.entries(described).flatMap(([api, { paths }]) => {
        const titles = Object.keys(suites[api] ?? {})
        return Object.entries(paths).flatMap(([path, methods]) => {
          const own = path.replace(/^\/(api\/v1\/auth|admin\/v1)/, '').replaceAll(/{\w+}/g, '[^/]+')
          const title = (method: string) => new RegExp(`^${method} ${own}( |\\?|$)`, 'i')
          const unproven = Object.keys(methods).filter(
            method => !titles.some(name => title(method).test(name)),
          )
          return unproven.map(method => `${method} ${path}`)
        })
      })
      assert.deepEqual(missing, WITHOUT_STORE)
    })

    const common = { faults, judge: judgeRequests(requests), engine, clear: database.clear }
    for (const [title, all] of Object.entries(suites)) {
      const name = `${title} on ${engine}`
      await t.test(`every operation of the store, ${title}`, context =>
        proveAll(context, `${name}, operations of the store`, all, {
          ...common,
          unit: 'operation',
        }),
      )
      if (!IS_FULL) continue
      await t.test(`every statement, ${title}`, async context => {
        context.after(injectIntoDrivers(faults))
        // A fault of the disk is remembered for ten seconds, in which the service is not ready.
        const leftOut = [RENEWING, ...Object.keys(ofOperators)]
        const chosen = Object.entries(all).filter(([title]) => !leftOut.includes(title))
        const operations = Object.fromEntries(chosen)
        await proveAll(context, `${name}, statements`, operations, { ...common, unit: 'statement' })
      })
    }
  })
}
