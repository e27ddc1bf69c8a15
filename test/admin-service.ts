// A service with its admin API, and a client with tokens of both roles that compares every answer with the document.
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { type AdminToken, replaceTokens } from '../src/admin/tokens/token-file.ts'
import { createAdminToken, digestOf } from '../src/identifiers.ts'
import type { EngineName } from '../src/storage/sql/engine.ts'
import { createDescription, type Description } from './described.ts'
import { freePort } from './postgres-server.ts'
import {
  type Answer,
  type Call,
  createClient,
  startTestService,
  type TestService,
} from './service.ts'

export const ADMIN = '/admin/v1'
/** The API's description, which is the same for every service. */
let description: Description | null = null

/** The parts of an answer of the admin API. A test that reads a missing part fails. */
export type AdminAnswer = Omit<Answer, 'json'> & {
  json: {
    success: boolean
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
  isActive: boolean
  lockedUntil: string | null
  lockedBy: string | null
}

export type AdminCall = Call & { token?: string | null }

type NewToken = Pick<AdminToken, 'role'> &
  Partial<Pick<AdminToken, 'expiresAt'>> & { token: string }

export type AdminService = Omit<TestService, 'stop'> & {
  adminUrl: string
  /** The OpenAPI document of the admin API. */
  described: Description
  tokensFile: string
  write: string
  read: string
  /** One of 20 further tokens that may write, in turn: each has its own limit of requests. */
  nextToken: () => string
  /** With the token that may write, unless another one is given. */
  admin: (method: string, path: string, body?: unknown, call?: AdminCall) => Promise<AdminAnswer>
  /** Replaces all tokens by these. */
  setTokens: (tokens: Record<string, NewToken>) => Promise<void>
  stop: () => Promise<void>
}

export async function startAdminService(
  engine: EngineName,
  env: Record<string, string> = {},
  wrap?: Parameters<typeof startTestService>[4],
): Promise<AdminService> {
  const port = await freePort()
  const withAdmin = { ...env, ADMIN_PORT: String(port) }
  const service = await startTestService(engine, withAdmin, null, undefined, wrap)
  const tokensFile = join(service.dataDir, 'admin-tokens.json')
  const adminUrl = `https://127.0.0.1:${port}`
  const client = await createClient(adminUrl, service.dataDir, env.ADMIN_TLS_CERT_FILE)
  const [write, read] = [createAdminToken(), createAdminToken()]

  async function setTokens(tokens: Record<string, NewToken>): Promise<void> {
    const createdAt = new Date()
    const list = Object.entries(tokens).map(([name, { token, role, expiresAt = null }]) => ({
      name,
      role,
      digest: digestOf(token),
      createdAt,
      expiresAt,
    }))
    await replaceTokens(tokensFile, list)
    await chmod(tokensFile, 0o600)
  }
  const more = Array.from({ length: 20 }, createAdminToken)
  let calls = 0
  await setTokens({
    registration: { token: write, role: 'write' },
    'back-office': { token: read, role: 'read' },
    ...Object.fromEntries(more.map((token, i) => [`more-${i}`, { token, role: 'write' as const }])),
  })

  const headers = { Authorization: `Bearer ${more[0]}` }
  description ??= createDescription(
    (await client.call({ method: 'GET', path: '/openapi.json', headers })).text,
  )
  const described = description

  return {
    ...service,
    adminUrl,
    described,
    tokensFile,
    write,
    read,
    nextToken: () => more[calls++ % more.length] ?? '',
    setTokens,
    async admin(method, path, body, { token = write, headers, ...call } = {}) {
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
