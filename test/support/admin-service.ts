// A service with its admin API, and a client with tokens that compares every answer with the document.
import assert from 'node:assert/strict'
import type { AdminToken } from '../../src/domain/admin-token.ts'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { createAdminToken, digestOf } from '../../src/system/identifiers.ts'
import { changeAt } from '../storage/fixtures.ts'
import { createDescription, type Description } from './described.ts'
import { freePort } from './postgres-server.ts'
import { type Answer, type Call, createClient, startTestService } from './service.ts'

export const ADMIN = '/admin/v1'
/** The API's description, which is the same for every service. */
let description: Description | null = null

/** The parts of an answer of the admin API. A test that reads a missing part fails. */
export type AdminAnswer = Omit<Answer, 'json'> & {
  json: {
    data: AdminUser & {
      user: AdminUser
      users: AdminUser[]
      sessions: { id: string }[]
      events: {
        id: number
        action: string
        target: string
        targetId: string | null
        by: object
        before: object | null
        after: object | null
      }[]
      next: string | number | null
      ended: number
      until: string
      verdict: { kind: string }
      scopes: { failures: number; digest: string }[]
      clients: { digest: string }[]
    }
    error: { code: string; message: string; fields?: string[]; reason?: string }
  }
}

type AdminUser = {
  id: string
  email: string
  name: string
  role: string
  state: string
}

export type AdminCall = Call & { token?: string | null }

export type AdminService = Awaited<ReturnType<typeof startAdminService>>

export async function startAdminService(
  engine: EngineName,
  env: Record<string, string> = {},
  wrap?: Parameters<typeof startTestService>[4],
) {
  const port = await freePort()
  const withAdmin = { ...env, ADMIN_PORT: String(port) }
  const service = await startTestService(engine, withAdmin, null, undefined, wrap)
  const adminUrl = `https://127.0.0.1:${port}`
  const client = await createClient(adminUrl, service.dataDir, env.ADMIN_TLS_CERT_FILE)
  /** For a year, unless its end is given. */
  const addToken = async (name: string, role: AdminToken['role'], expiresAt?: Date) => {
    const token = createAdminToken()
    const at = service.now()
    const end = expiresAt ?? new Date(at.getTime() + 365 * 24 * 3_600_000)
    const added = { name, role, digest: digestOf(token), expiresAt: end }
    assert.ok(await service.store.adminTokens.insert(added, changeAt(at)))
    return token
  }
  const write = await addToken('registration', 'write')
  const read = await addToken('back-office', 'read')

  const headers = { Authorization: `Bearer ${read}` }
  description ??= createDescription(
    (await client.call({ method: 'GET', path: '/openapi.json', headers })).text,
  )
  const described = description

  return {
    ...service,
    ...{ adminUrl, addToken },
    /** Without a token, and not compared with the document: for the console. */
    callConsole: client.call,
    /** The OpenAPI document of the admin API. */
    described,
    /** Tokens of these roles. */
    ...{ write, read },
    /** With the token that may write, unless another one is given. */
    async admin(
      method: string,
      path: string,
      body?: unknown,
      { token = write, headers, ...call }: AdminCall = {},
    ) {
      const authorization = token === null ? {} : { Authorization: `Bearer ${token}` }
      const address = path.startsWith('/') ? `${ADMIN}${path}` : path
      const answer = await client.call({
        method,
        path: address,
        body,
        headers: { ...authorization, ...headers },
        ...call,
      })
      described.check(method, address, answer)
      const parts: unknown = answer
      return parts as AdminAnswer
    },
    async stop() {
      client.close()
      await service.stop()
    },
  }
}
