// Opens the ports, and announces the addresses.
import { once } from 'node:events'
import type { Server } from 'node:net'
import type { Config } from '../config/config.ts'
import { pageAddress } from '../http/page/address.ts'
import { createCountedLog } from '../log/counted-log.ts'
import type { Log } from '../log/log.ts'
import { Failure } from '../system/failures.ts'
import { codeOf, hasCode } from '../system/files.ts'
import type { Servers } from './compose.ts'
import { type Drain, prepareClose } from './drain.ts'
import type { Parts } from './open.ts'

/** Returns the public port. The servers are closed with `opened`. */
export async function openPorts(
  { config, log }: { config: Config; log: Log },
  { tls, adminTls }: Parts,
  { app, admin, ops, usePort }: Servers,
  drain: Drain,
  opened: AsyncDisposableStack,
): Promise<number> {
  opened.defer(() => {
    ops.close()
    ops.closeAllConnections()
  })
  opened.defer(drain.finishLateWork)
  const apps = admin ? [app, admin] : [app]
  await Promise.all(apps.map(it => it.ready()))
  tls.serveOn(app.server)
  if (admin) adminTls.serveOn(admin.server)
  const closers = apps.map(prepareClose)
  opened.defer(async () => {
    await Promise.all(closers.map(close => close()))
  })

  const port = await listen(app.server, config.port, config.host, 'PORT')
  // Connections are accepted in a later turn of the event loop, so no request has seen the default issuer.
  usePort(port)
  if (config.opsPort > 0) await listen(ops, config.opsPort, config.opsHost, 'OPS_PORT')
  if (admin) await listen(admin.server, config.adminPort, config.adminHost, 'ADMIN_PORT')
  const countedLog = createCountedLog(log)
  // A connection that cannot be accepted, for example for lack of memory, is no reason to end.
  const onFault = (err: Error) =>
    countedLog.write('error', '', {}, { event: 'connection.failed', err })
  for (const server of [...apps.map(it => it.server), ops]) server.on('error', onFault)
  return port
}

/** New connections that the system keeps while the service is busy. A client beyond them tries again after a second. */
const BACKLOG = 4_096

/** Returns the port that was bound. */
async function listen(
  server: Server,
  port: number,
  host: string,
  variable: string,
): Promise<number> {
  try {
    await once(server.listen(port, host, BACKLOG), 'listening')
  } catch (error) {
    if (hasCode(error, 'EADDRINUSE')) {
      throw new Failure(`Port ${port} is taken: stop the other process or set ${variable}.`)
    }
    const hostVariable = variable.replace('PORT', 'HOST')
    throw new Failure(
      `${host}:${port} cannot be listened on (${codeOf(error)}): set ${hostVariable} or ${variable}.`,
    )
  }
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  return address.port
}

/** Returns the address on which the service listens. */
export function announceStart(
  { config, log }: { config: Config; log: Log },
  { tls, hasUsers }: Parts,
  port: number,
): string {
  const url = urlOf(config.host, port, tls.current() !== null)
  const page = pageAddress(config, tls.current(), port)
  const admin = config.adminPort > 0 && urlOf(config.adminHost, config.adminPort, true)
  const console = config.console && `${config.adminOrigin ?? admin}/console`
  const addresses = {
    address: url,
    ...(page && { page }),
    ...(admin && { admin }),
    ...(console && { console }),
  }
  const text = `listening on ${url}${page ? `, login page at ${page}` : ''}${console ? `, console at ${console}` : ''}`
  log.info({ event: 'service.started', ...addresses, database: config.database.engine }, text)
  if (!hasUsers) {
    const advice = 'run in the same environment: ./login-service users add EMAIL --name NAME'
    log.info({ event: 'service.no_users' }, `there are no users yet; to add one, ${advice}`)
  }
  return url
}

function urlOf(host: string, port: number, isEncrypted: boolean): string {
  const name = host.includes(':') ? `[${host}]` : host
  return `${isEncrypted ? 'https' : 'http'}://${name}:${port}`
}
