// Serves a renewed certificate without a restart, and logs a warning before it expires.
import type { Server } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import type { Config, TlsFiles } from '../../config/config.ts'
import { DAY_MS } from '../../domain/lifetimes.ts'
import type { Log } from '../../log/log.ts'
import { type Followed, followFiles } from '../../system/follow-files.ts'
import {
  daysLeft,
  EXPIRY_WARNING_DAYS,
  expiryOf,
  loadTls,
  TLS_OPTIONS,
  type TlsMaterial,
} from './tls.ts'

type ServedTls = Followed<TlsMaterial | null> & {
  /** New connections of this server use every reloaded certificate; open connections are kept. */
  serveOn: (server: Server) => void
}

/**
 * Follows the operator's files. If they cannot be used, or do not match because only one of them has
 * been replaced so far, this is logged and the previous certificate stays in use. The development
 * certificate is renewed only at a start.
 */
export async function openTls(
  config: Config,
  files: TlsFiles | null,
  log: Log,
  clock: () => Date,
): Promise<ServedTls> {
  const servers: Server[] = []
  const load = () => loadTls(config, clock(), files)

  const apply = () => {
    const material = current()
    for (const server of servers) {
      if (material && server instanceof TlsServer) {
        server.setSecureContext({ ...material, ...TLS_OPTIONS })
      }
    }
  }
  const onReload = (error: Error | null) => {
    if (error) {
      const text = `The new certificate cannot be used, the previous one stays in use: ${error.message}`
      log.error({ event: 'tls.reload_failed', err: error }, text)
      return
    }
    apply()
    log.info({ event: 'tls.reloaded', expiresAt: expiryOf(current()?.cert ?? '').toISOString() })
    warnOfExpiry()
  }
  const warnOfExpiry = () => {
    const material = current()
    if (!material) return
    const days = Math.floor(daysLeft(material.cert, clock()))
    const advice = files ? `renew ${files.certFile}` : 'restart the service, which makes a new one'
    if (days < 0) {
      log.error({ event: 'tls.expired', daysLeft: days }, `The certificate has expired: ${advice}`)
    } else if (days < EXPIRY_WARNING_DAYS) {
      log.warn({ event: 'tls.expiring', daysLeft: days }, `The certificate expires soon: ${advice}`)
    }
  }

  const paths = files ? [files.certFile, files.keyFile] : []
  const followed: Followed<TlsMaterial | null> = await followFiles(paths, load, onReload)
  const { current } = followed
  warnOfExpiry()
  const expiryTimer = setInterval(warnOfExpiry, DAY_MS).unref()
  return {
    current,
    reload: files ? followed.reload : async () => {},
    close() {
      clearInterval(expiryTimer)
      followed.close()
    },
    serveOn(listening) {
      servers.push(listening)
      // The certificate may have been reloaded since the server was created.
      apply()
    },
  }
}
