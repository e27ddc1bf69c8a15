// Checks which certificate a running service serves, as it may not have loaded a renewed file, and that its
// admin API answers.
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:tls'
import type { Config } from '../../config/config.ts'
import { codeOf, messageOf } from '../../files.ts'
import { type Finding, ok, problem, warning } from '../../finding.ts'
import { developmentFiles, readTlsFiles } from '../../http/connection/tls.ts'

const ANSWER_WITHIN_MS = 2_000

type Served =
  | { kind: 'certificate'; certificate: X509Certificate }
  | { kind: 'nothing' }
  | { kind: 'no-tls'; reason: string }

export async function checkRunning(config: Config, now: Date): Promise<Finding[]> {
  const { host, port, tls, trustedProxies } = config
  const isPlain = !tls && trustedProxies.length > 0
  if (isPlain || port === 0) return []
  const where = `${host}, port ${port}`
  const served = await askForCertificate(host, port)
  if (served.kind === 'nothing') return [ok('running', `no service is listening on ${where}`)]
  if (served.kind === 'no-tls') {
    return [warning('running', `no TLS on ${where} (${served.reason}): is it another program?`)]
  }
  return [await checkCertificate(config, served.certificate, now), ...(await checkAdmin(config))]
}

/** Called only if the service itself is running: one process opens both ports. */
async function checkAdmin({ adminHost, adminPort }: Config): Promise<Finding[]> {
  if (adminPort === 0) return []
  const where = `${adminHost}, port ${adminPort}`
  const { kind } = await askForCertificate(adminHost, adminPort)
  return [
    kind === 'certificate'
      ? ok('running', `the admin API answers on ${where}`)
      : warning('running', `the admin API does not answer on ${where}: restart the service`),
  ]
}

async function checkCertificate(
  config: Config,
  { fingerprint256, validFromDate, validToDate }: X509Certificate,
  now: Date,
): Promise<Finding> {
  const { host, port, tls } = config
  const installed = await readInstalled(config)
  if (installed?.fingerprint256 === fingerprint256) {
    return ok('running', `${host}, port ${port} serves this certificate`)
  }
  const isOlder = installed !== null && validFromDate < installed.validFromDate
  const detail = `the running service ${isOlder ? 'still serves an older' : 'serves another'} certificate`
  const advice = tls ? 'send it SIGHUP and look for tls.reload_failed in its log' : 'restart it'
  return validToDate <= now
    ? problem('running', `${detail}, which has expired: ${advice}`)
    : warning('running', `${detail}: ${advice}`)
}

/** Null if the files cannot be read, which `checkFiles` reports. */
async function readInstalled({ tls, dataDir }: Config): Promise<X509Certificate | null> {
  try {
    return new X509Certificate((await readTlsFiles(tls ?? developmentFiles(dataDir))).cert)
  } catch {
    return null
  }
}

/** Makes a TLS handshake and sends nothing, so it does not have to trust the other side. */
async function askForCertificate(host: string, port: number): Promise<Served> {
  const everywhere: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '::1' }
  const socket = connect({ host: everywhere[host] ?? host, port, rejectUnauthorized: false })
  // An error after the answer changes nothing.
  socket.on('error', () => {})
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS)
  let isConnected = false
  try {
    await once(socket, 'connect', { signal })
    isConnected = true
    await once(socket, 'secureConnect', { signal })
    const certificate = socket.getPeerX509Certificate()
    if (!certificate) return { kind: 'no-tls', reason: 'no certificate' }
    return { kind: 'certificate', certificate }
  } catch (error) {
    const late = `no answer within ${ANSWER_WITHIN_MS / 1000} s`
    if (signal.aborted) return { kind: 'no-tls', reason: late }
    if (isConnected) return { kind: 'no-tls', reason: codeOf(error) || messageOf(error) }
    return { kind: 'nothing' }
  } finally {
    socket.destroy()
  }
}
