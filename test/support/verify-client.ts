// A service behind a trusted proxy, and the requests by which proxies ask GET /verify. The test is the proxy at 127.0.0.1;
// at 127.0.0.2 it is a direct caller.
import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { type Answer, ISSUER } from './service.ts'
import { type Login, type SessionService, startSessionService } from './session-client.ts'

export const LISTED = 'https://app.example.com'
export const IDENTITY = ['remote-user', 'remote-email', 'remote-name', 'remote-role']
const TEMPLATES = process.env.TEST_TEMPLATES ?? ''

export type VerifyService = SessionService & {
  verify: (headers: OutgoingHttpHeaders, query?: string) => Promise<Answer>
  /** A browser's login through the proxy. */
  newLogin: (name?: string) => Promise<Login>
}

export async function startVerifyService(engine: EngineName): Promise<VerifyService> {
  const service = await startSessionService(engine, {
    TRUST_PROXY: '127.0.0.1',
    TLS_CERT_FILE: join(TEMPLATES, 'development-cert.pem'),
    TLS_KEY_FILE: join(TEMPLATES, 'development-key.pem'),
    CORS_ORIGINS: LISTED,
    RETURN_TO_ORIGINS: `${ISSUER},${ISSUER}:8443,${LISTED}`,
  })
  let users = 0
  return {
    ...service,
    verify: (headers, query = '') => service.get(`/verify${query}`, { ...forwarded(), ...headers }),
    async newLogin(name = 'Kate') {
      const email = `user${++users}@example.com`
      await service.addUser(email, { name })
      return service.browserLogin(email, { headers: forwarded() })
    },
  }
}

let clients = 0

/** What a trusted proxy adds. Each request comes from another client, so that its refusal is logged, not counted. */
export function forwarded() {
  clients++
  const address = `198.18.${Math.floor(clients / 250)}.${clients % 250}`
  return { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': address }
}

export function assertRefused({ status, json, headers }: Answer, about?: string): void {
  assert.deepEqual([status, json.error.code], [401, 'INVALID_TOKEN'], about)
  assert.equal(headers.location, undefined, about)
  for (const name of IDENTITY) assert.equal(headers[name], undefined)
}
