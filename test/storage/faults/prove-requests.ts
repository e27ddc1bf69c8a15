// Every operation of both APIs, with every fault of every call to the store: only documented answers, no half-written
// fact, and the next request works.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Document } from '../../../src/http/openapi/document.ts'
import type { EngineName } from '../../../src/storage/sql/engine.ts'
import { LEASE_MS } from '../../../src/storage/sql/throttle-rows.ts'
import { digestOf } from '../../../src/system/identifiers.ts'
import { type KeptDatabase, keepConnection } from '../../operation/kept-connection.ts'
import { type AdminService, startAdminService } from '../../support/admin-service.ts'
import { freePort } from '../../support/postgres-server.ts'
import { IS_FULL } from '../../support/proof.ts'
import { PASSWORD } from '../../support/service.ts'
import { adminRequests } from './admin-requests.ts'
import { createFaults, injectIntoDrivers } from './faults.ts'
import { CALLBACK, loginRequests, RENEWING } from './login-requests.ts'
import { proveAll } from './loop.ts'
import { createRequests, judgeRequests, LIMITS, type Request, type Requests } from './requests.ts'
import { sessionRequests } from './session-requests.ts'

/** The only described operation that does not use the store. */
const KEYS = '/.well-known/jwks.json'
/** The first operation of a login reserves the attempt. */
const SETTLING = 2
/** A result of the readiness check is shared for a second, by a timer of this process. */
const READINESS_SHARED_MS = 1_100

export function proveRequests(engine: EngineName): void {
  describe(`faults of requests on ${engine}`, () => {
    const faults = createFaults(['maintenance.purge', 'maintenance.readClock'])
    let service: AdminService
    let database: KeptDatabase
    let requests: Requests
    let opsPort: number
    before(async () => {
      opsPort = await freePort()
      const env = { OPS_PORT: String(opsPort), CODE_CALLBACKS: CALLBACK }
      service = await startAdminService(engine, env, faults.wrap)
      database = await keepConnection(service.database)
      requests = createRequests({ ...service, database })
    })
    after(async () => {
      await database.close()
      await service.stop()
    })

    /** Each makes the readiness check, which writes. */
    const ofOperators = ['/readyz', '/metrics'].map(
      (path): Request => ({
        title: `GET ${path}`,
        success: 200,
        async prepare() {
          return {
            email: null,
            async run() {
              await sleep(READINESS_SHARED_MS)
              const answer = await fetch(`http://127.0.0.1:${opsPort}${path}`)
              return { status: answer.status, text: await answer.text() }
            },
          }
        },
      }),
    )

    test('has every operation that the documents of both APIs describe', async () => {
      const document = await service.call({ method: 'GET', path: '/openapi.json' })
      const described = { public: JSON.parse(document.text), admin: service.described.document }
      for (const api of ['public', 'admin'] as const) {
        const { paths }: Pick<Document, 'paths'> = described[api]
        const titles = suites[`${api} API`]().map(({ title }) =>
          `${title} `.replace(/:(\w+)/g, '{$1}'),
        )
        const operations = Object.entries(paths).flatMap(([path, methods]) =>
          Object.keys(methods).map(
            method =>
              `${method.toUpperCase()} ${path.replace(/^\/(api\/v1\/auth|admin\/v1)/, '')} `,
          ),
        )
        const missing = operations.filter(
          operation => !titles.some(title => title.startsWith(operation)),
        )
        assert.deepEqual(missing, api === 'public' ? [`GET ${KEYS} `] : [])
      }
    })

    test('an attempt that stays pending becomes a failure after its lease', async () => {
      const { email, from } = await requests.newUser()
      const login = () => service.login(email, PASSWORD, from)
      const fault = { at: SETTLING, kind: 'error', isLasting: false } as const
      assert.equal((await faults.during(fault, 'operation', login)).value.status, 500)
      const states = async () =>
        (await service.store.throttle.readOfEmail(digestOf(email), LIMITS, service.now())).map(
          ({ pending, failures }) => [pending, failures],
        )
      assert.deepEqual(await states(), [
        [1, 0],
        [1, 0],
      ])
      service.advance(LEASE_MS)
      assert.deepEqual(await states(), [
        [0, 1],
        [0, 1],
      ])
      assert.equal((await login()).status, 200)
    })

    const suites = {
      'public API': () => [
        ...loginRequests(requests),
        ...sessionRequests(requests),
        ...ofOperators,
      ],
      'admin API': () => adminRequests(requests),
    }
    for (const [title, list] of Object.entries(suites)) {
      test(`every operation of the store, ${title}`, context =>
        proveAll(context, `${title} on ${engine}, operations of the store`, list(), {
          faults,
          judge: judgeRequests(requests),
          unit: 'operation',
          engine,
          clear: database.clear,
        }))
      if (!IS_FULL) continue
      test(`every statement, ${title}`, async context => {
        context.after(injectIntoDrivers(faults))
        // A fault of the disk is remembered for ten seconds, in which the service is not ready.
        const isLeftOut = ({ title }: Request) =>
          title === RENEWING || ofOperators.some(left => left.title === title)
        const chosen = list().filter(request => !isLeftOut(request))
        await proveAll(context, `${title} on ${engine}, statements`, chosen, {
          faults,
          judge: judgeRequests(requests),
          unit: 'statement',
          engine,
          clear: database.clear,
        })
      })
    }
  })
}
