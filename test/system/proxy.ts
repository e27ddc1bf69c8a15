// Starts a proxy in front of a login service.
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { type RunningProcess, run, until } from '../support/process.ts'
import type { createClient } from '../support/service.ts'

export type ProxyName = keyof typeof PROXIES

/** How each is started with a file. */
export const PROXIES = {
  nginx: ['/usr/sbin/nginx', '-c'],
  Caddy: ['caddy', 'run', '--adapter', 'caddyfile', '--config'],
}

/** A whole file around servers, which keeps its own files in the folder. */
export function nginxFile(folder: string, servers: string): string {
  return `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
    events {}
    http {
      access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
      fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
      ${servers}
    }`
}

type Client = Awaited<ReturnType<typeof createClient>>

/** Waits until it answers the address of the login page so. Ends after the calling test or suite. */
export async function startProxy(
  command: string[],
  { call }: Client,
  home: string,
  status = 200,
): Promise<RunningProcess> {
  const proxy = run({ HOME: home }, { command, cwd: home })
  after(() => {
    proxy.kill('SIGTERM')
    return proxy.exit
  })
  await until(async () => {
    assert.ok(proxy.kill(0), proxy.output())
    const answer = await call({ method: 'GET', path: '/login' }).catch(() => null)
    return answer?.status === status
  })
  return proxy
}
