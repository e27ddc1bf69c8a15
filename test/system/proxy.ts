// Starts a proxy in front of a login service.
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { type RunningProcess, run, until } from '../support/process.ts'
import type { createClient } from '../support/service.ts'

type Client = Awaited<ReturnType<typeof createClient>>

/** Waits until the login page comes through it. Ends after the calling test or suite. */
export async function startProxy(
  command: string[],
  { call }: Client,
  home: string,
): Promise<RunningProcess> {
  const proxy = run({ HOME: home }, { command, cwd: home })
  after(() => {
    proxy.kill('SIGTERM')
    return proxy.exit
  })
  await until(async () => {
    assert.ok(proxy.kill(0), proxy.output())
    const answer = await call({ method: 'GET', path: '/login' }).catch(() => null)
    return answer?.status === 200
  })
  return proxy
}
