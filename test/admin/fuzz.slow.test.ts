// Many generated requests to every route of the admin API: none causes a fault.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ADMIN_ROUTES } from '../../src/admin/api/app.ts'
import { ADMIN_FAILURES, PUBLIC_FAILURES } from '../../src/http/answer/envelope.ts'
import { ADMIN, startAdminService } from '../support/admin-service.ts'
import { anyText, INHERITED } from '../support/any-text.ts'
import { ENGINES } from '../support/engines.ts'
import { faultsIn, own } from '../support/own.ts'
import { casesOf, IS_FULL } from '../support/proof.ts'

const KNOWN: Record<string, { status: number }> = { ...PUBLIC_FAILURES, ...ADMIN_FAILURES }

/** PostgreSQL refuses texts that SQLite stores. */
const SOME = IS_FULL ? ENGINES : ENGINES.slice(-1)

for (const engine of SOME) {
  test(`5,000 generated requests to the admin API on ${engine} get answers of the documented kinds`, async () => {
    const service = await own(startAdminService(engine))
    const anything = fc.oneof(
      anyText(300),
      fc.constantFrom(
        ...['\0', '\ud800', '%', '%2F', '../../..', "' or 1=1 --", '$2b$31$', ...INHERITED],
        ...['target@example.com', '%00', 'x'.repeat(300), '🙂'.repeat(64), '', ' ', '-1', '1e400'],
      ),
    )
    await service.addUser('target@example.com')
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...ADMIN_ROUTES),
        anything,
        fc.dictionary(
          fc.constantFrom(
            ...['email', 'name', 'role', 'password', 'passwordHash', 'until', 'limit', 'after'],
            ...['target', 'since', 'before', 'search', 'state', 'client', 'top', ...INHERITED],
          ),
          fc.oneof(anything, fc.jsonValue({ maxDepth: 2 })),
          { maxKeys: 4 },
        ),
        async ([method, url], name, values) => {
          const query = new URLSearchParams()
          for (const [key, value] of Object.entries(values)) {
            query.set(key, typeof value === 'string' ? value : JSON.stringify(value))
          }
          const named = encodeURIComponent(name.toWellFormed()) || 'x'
          const path = url.replace(/:user|:id/, named).slice(ADMIN.length)
          const hasBody = String(method).startsWith('P')
          const body = hasBody ? JSON.stringify(values) : undefined
          const headers = hasBody ? { 'Content-Type': 'application/json' } : {}
          const asked = `${path}${hasBody ? '' : `?${query}`}`
          const answer = await service.admin(String(method), asked, body, { headers })
          const { status, json, text } = answer
          const about = `${method} ${path} ${JSON.stringify(values)}: ${status} ${text}`
          assert.ok(status < 500, about)
          if (status >= 300) assert.equal(KNOWN[json.error.code]?.status, status, about)
        },
      ),
      { numRuns: casesOf(5_000) },
    )
    assert.deepEqual(faultsIn(service), [])
  })
}
