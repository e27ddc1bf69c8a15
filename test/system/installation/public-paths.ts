// The addresses of the service that must work behind every proxy.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { Answer, Call } from '../../support/service.ts'

/** No two are the same. */
const CHALLENGE = /(?<="challenge":")[\w-]{51}(?=")/

type Ask = (call: Call) => Promise<Pick<Answer, 'status' | 'text'>>

/** Every operation of the API, and what the login page needs. */
export async function listPublicPaths(ask: Ask): Promise<{ method: string; path: string }[]> {
  const { paths } = JSON.parse((await ask({ method: 'GET', path: '/openapi.json' })).text)
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(Object(methods)).map(method => ({
      method: method.toUpperCase(),
      path: path.replace('{id}', randomUUID()),
    })),
  )
  const { text: page } = await ask({ method: 'GET', path: '/login' })
  const assets = [...page.matchAll(/\/assets\/[^"]+/g)].map(([path]) => path)
  assert.ok(operations.length > 10 && assets.length > 1)
  return [
    ...operations,
    ...['/login', '/login/password', '/.well-known/change-password', ...assets].map(path => ({
      method: 'GET',
      path,
    })),
    ...['/login', '/login/logout', '/login/sessions/others/end'].map(path => ({
      method: 'POST',
      path,
    })),
  ]
}

/** Each is answered through the proxy as by the service itself, without credentials. */
export async function assertSamePublicPaths(throughProxy: Ask, direct: Ask): Promise<void> {
  for (const call of await listPublicPaths(direct)) {
    const [proxied, expected] = [await throughProxy(call), await direct(call)].map(answer => [
      answer.status,
      answer.text.replace(CHALLENGE, ''),
    ])
    assert.deepEqual(proxied, expected, `${call.method} ${call.path}`)
  }
}
