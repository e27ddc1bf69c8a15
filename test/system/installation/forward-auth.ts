// nginx and Caddy with the recipes of docs/integrating.md, in front of an application that prints what it gets.
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { join } from 'node:path'
import type { RunningProcess } from '../../support/process.ts'
import { example, makeRecipeFolder, recipe } from '../../support/recipes.ts'
import { createClient } from '../../support/service.ts'
import { startProxy } from '../proxy.ts'

const CERT_FILE = join(process.env.TEST_TEMPLATES ?? '', 'development-cert.pem')
const KEY_FILE = CERT_FILE.replace('cert.pem', 'key.pem')

export const PROXIES = ['nginx', 'Caddy'] as const

const COMMANDS = {
  nginx: ['/usr/sbin/nginx', '-c'],
  Caddy: ['caddy', 'run', '--adapter', 'caddyfile', '--config'],
}

function toFile(proxy: keyof typeof COMMANDS, folder: string): string {
  if (proxy === 'Caddy') {
    return `{
        admin off
        auto_https disable_redirects
      }
      ${recipe('Caddy', 'caddy')}`
  }
  return `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
    events {}
    http {
      access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
      fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
      ${example('nginx.conf')}
    }`
}

/** `address` is that of the proxy, `service` and `application` are hosts with ports. */
export async function createAuthProxy(
  proxy: keyof typeof COMMANDS,
  { address, service, application }: { address: string; service: string; application: string },
) {
  const addresses = {
    'app.example.com {': `${address} {\ntls ${CERT_FILE} ${KEY_FILE}`,
    'app.example.com': 'localhost',
    '127.0.0.1:8443': service,
    '127.0.0.1:3000': application,
    'listen 443': `listen 127.0.0.1:${new URL(address).port}`,
    '/etc/nginx/app.pem': CERT_FILE,
    '/etc/nginx/app.key': KEY_FILE,
  }
  const folder = await makeRecipeFolder(addresses, CERT_FILE)
  const client = await createClient(address, '', CERT_FILE)
  let running: RunningProcess | null = null

  async function end(): Promise<void> {
    running?.kill('SIGTERM')
    await running?.exit
  }

  /** Ends it if it runs. With a query, each request is then verified with it. */
  async function restart(query = ''): Promise<void> {
    await end()
    const text = toFile(proxy, folder.path)
    await folder.write('proxy.conf', query ? text.replace(/(auth\/verify)\??/, `$1${query}`) : text)
    const command = [...COMMANDS[proxy], join(folder.path, 'proxy.conf')]
    running = await startProxy(command, client, folder.path)
  }

  return {
    call: client.call,
    restart,
    async stop() {
      client.close()
      await end()
      await folder.remove()
    },
  }
}

/** What the application got. */
export type Seen = { method: string; url: string; headers: Record<string, string[]>; bytes: number }

/** Prints every request that it gets, also the first of a WebSocket. */
export async function startApplication(): Promise<Server> {
  const server = createServer(async (request, response) => {
    let bytes = 0
    for await (const chunk of request) bytes += chunk.length
    response.end(toText(request, bytes))
  })
  server.on('upgrade', (request, socket) => {
    const switching =
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket'
    socket.write(`${switching}\r\n\r\n${toText(request, 0)}`)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return server
}

function toText({ method, url, headersDistinct }: IncomingMessage, bytes: number): string {
  return JSON.stringify({ method, url, headers: headersDistinct, bytes })
}
