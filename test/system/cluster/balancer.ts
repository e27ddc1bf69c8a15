// HAProxy and nginx in front of instances, with the configuration that docs/operations.md recommends.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after } from 'node:test'
import { developmentFiles } from '../../../src/http/connection/tls.ts'
import { inParallel, ownFolder } from '../../support/own.ts'
import { freePort } from '../../support/postgres-server.ts'
import { PROJECT } from '../../support/process.ts'
import { recipe } from '../../support/recipes.ts'
import { createClient } from '../../support/service.ts'
import { startProxy } from '../proxy.ts'

const DOCUMENT = await readFile(join(PROJECT, 'docs/operations.md'), 'utf8')
const CERTIFICATE_FOLDER = process.env.TEST_TEMPLATES ?? ''
const { certFile, keyFile } = developmentFiles(CERTIFICATE_FOLDER)

/** The environment of an instance: it trusts the balancer, which verifies its certificate. */
export const BEHIND_BALANCER = {
  TRUST_PROXY: '127.0.0.1',
  TLS_CERT_FILE: certFile,
  TLS_KEY_FILE: keyFile,
}

type BalancerName = 'haproxy' | 'nginx'
/** Where an instance listens, for callers and for health checks. */
export type Target = { port: string; opsPort: string }

export async function chooseTargets(count: number): Promise<Target[]> {
  const choose = async () => String(await freePort())
  return inParallel(count, async () => ({ port: await choose(), opsPort: await choose() }))
}

/** Has the development certificate too, which is its own CA. It ends after the calling test or suite. */
export async function startBalancer(
  name: BalancerName,
  targets: Target[],
  change = (code: string) => code,
) {
  const folder = await ownFolder(`login-${name}-`)
  const pem = join(folder, 'login.pem')
  const parts = await Promise.all([certFile, keyFile].map(part => readFile(part, 'utf8')))
  await writeFile(pem, parts.join('\n'))
  const port = await freePort()
  const code = change(recipe('Behind a load balancer', name, 0, DOCUMENT))
    .replace(/\/etc\/\w+\/login-ca.pem/, certFile)
    .replace('login.example.com', 'localhost')
  const file = join(folder, 'configuration')
  const commands = {
    haproxy: ['/usr/sbin/haproxy', '-db', '-f', file],
    nginx: ['/usr/sbin/nginx', '-p', folder, '-c', file, '-e', join(folder, 'error.log')],
  }
  await writeFile(
    file,
    name === 'haproxy'
      ? fill(code, {
          bind: [`bind 127.0.0.1:${port} ssl crt ${pem} alpn h2,http/1.1`],
          server: targets.map(
            (target, index) =>
              `server login${index} 127.0.0.1:${target.port} check port ${target.opsPort}`,
          ),
        })
      : `daemon off; pid ${folder}/pid; events {} http { access_log off;
          client_body_temp_path ${folder}; proxy_temp_path ${folder};
          fastcgi_temp_path ${folder}; uwsgi_temp_path ${folder}; scgi_temp_path ${folder};
          ${fill(code, {
            listen: [`listen 127.0.0.1:${port} ssl;`],
            ssl_certificate: [`ssl_certificate ${pem};`],
            ssl_certificate_key: [`ssl_certificate_key ${pem};`],
            server: targets.map(target => `server 127.0.0.1:${target.port} max_fails=0;`),
          })} }`,
  )
  const url = `https://127.0.0.1:${port}`
  const client = await createClient(url, CERTIFICATE_FOLDER)
  await startProxy(commands[name], client, folder)
  after(client.close)
  return { url, call: client.call }
}

/** Replaces the lines of each directive, which must exist. "server {" opens a block and stays. */
function fill(code: string, directives: Record<string, string[]>): string {
  let lines = code.split('\n')
  for (const [name, replacement] of Object.entries(directives)) {
    const isReplaced = (line: string) => line.trim().startsWith(`${name} `) && !line.endsWith('{')
    const at = lines.findIndex(isReplaced)
    if (at === -1) throw new Error(`the recipe has no "${name}"`)
    lines = lines.flatMap((line, index) =>
      index === at ? replacement : isReplaced(line) ? [] : [line],
    )
  }
  return lines.join('\n')
}
