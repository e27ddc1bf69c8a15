// Checks which certificate a running service serves, as it may not have loaded a renewed file, that its admin API
// answers, that no other program has the ports, and that no proxy sends plain HTTP to a port that speaks TLS.
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'
import { connect } from 'node:tls'
import type { Config, TlsFiles } from '../../config/config.ts'
import { developmentFiles, readTlsFiles } from '../../http/connection/tls.ts'
import { codeOf, messageOf } from '../../system/files.ts'
import { type Finding, ok, problem, warning } from '../../system/finding.ts'

const ANSWER_WITHIN_MS = 2_000
const UNREACHABLE = /^E(CONNREFUSED|ADDRNOTAVAIL|HOSTUNREACH|NETUNREACH|NOTFOUND)$/
/** The addresses at which a service is reached that listens on all addresses. */
const LOCAL: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

type Served =
  | { kind: 'certificate'; certificate: X509Certificate }
  | { kind: 'nothing' }
  | { kind: 'no-tls'; reason: string }

export async function checkRunning(config: Config, now: Date): Promise<Finding[]> {
  return [
    ...(await checkPorts(config, now)),
    ...(await checkHealth(config)),
    ...(await checkProxies(config)),
  ]
}

async function checkPorts(config: Config, now: Date): Promise<Finding[]> {
  const { host, port, tls, trustProxy } = config
  if (port === 0) return []
  const where = `${host}, port ${port}`
  const served = await askForCertificate(host, port)
  if (!tls && trustProxy.length > 0) {
    return served.kind === 'nothing' ? [] : checkAdmin(config, now)
  }
  if (served.kind === 'nothing') return [ok('running', `no service is listening on ${where}`)]
  if (served.kind === 'no-tls') {
    return [warning('running', `no TLS on ${where} (${served.reason}): is it another program?`)]
  }
  return [
    await checkCertificate(config, tls, where, served.certificate, now),
    ...(await checkAdmin(config, now)),
  ]
}

/** Called only if the service itself is running: one process opens both ports. */
async function checkAdmin(config: Config, now: Date): Promise<Finding[]> {
  const { adminHost, adminPort, adminTls } = config
  if (adminPort === 0) return []
  const where = `${adminHost}, port ${adminPort}`
  const served = await askForCertificate(adminHost, adminPort)
  if (served.kind !== 'certificate') {
    return [warning('running', `the admin API does not answer on ${where}: restart the service`)]
  }
  if (!adminTls) return [ok('running', `the admin API answers on ${where}`)]
  const found = await checkCertificate(config, adminTls, where, served.certificate, now)
  return [{ ...found, detail: `admin API: ${found.detail}` }]
}

/** Behind a proxy the public port does not tell which program has it: this service has opened OPS_PORT too. */
async function checkHealth(config: Config): Promise<Finding[]> {
  const { host, port, opsHost, opsPort, tls, trustProxy } = config
  if (opsPort === 0) return []
  const where = `${opsHost}, port ${opsPort}`
  const answer = await askOps(config, '/livez')
  if (answer === 'alive\n') return []
  if (answer !== null) {
    return [warning('running', `no health endpoints on ${where}: has another program OPS_PORT?`)]
  }
  const isPlain = !tls && trustProxy.length > 0 && port > 0
  if (!isPlain || (await askForCertificate(host, port)).kind === 'nothing') return []
  const detail = `${host}, port ${port} is in use, but there are no health endpoints on ${where}`
  return [warning('running', `${detail}: is it another program?`)]
}

/** Null if nothing listens there; empty if there is no answer in HTTP. */
async function askOps({ opsHost, opsPort }: Config, path: string): Promise<string | null> {
  const host = LOCAL[opsHost] ?? opsHost
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS)
  try {
    const url = `http://${isIPv6(host) ? `[${host}]` : host}:${opsPort}${path}`
    return await (await fetch(url, { signal })).text()
  } catch (error) {
    return UNREACHABLE.test(codeOf(Object(error).cause)) ? null : ''
  }
}

/** Each login through such a proxy is answered with 400, and nothing else shows it. */
async function checkProxies(config: Config): Promise<Finding[]> {
  if (config.opsPort === 0 || config.trustProxy.length === 0) return []
  const metrics = (await askOps(config, '/metrics')) ?? ''
  const count = Number(/^proxy_plain_http_total (\d+)$/m.exec(metrics)?.[1] ?? 0)
  if (count === 0) return []
  return [
    warning(
      'proxies',
      `a proxy sent plain HTTP to PORT, which speaks TLS (requests since its start: ${count}): let it use https, or leave out TLS_CERT_FILE and TLS_KEY_FILE; the admin API can have ADMIN_TLS_CERT_FILE and ADMIN_TLS_KEY_FILE`,
    ),
  ]
}

async function checkCertificate(
  { dataDir }: Config,
  files: TlsFiles | null,
  where: string,
  { fingerprint256, validFromDate, validToDate }: X509Certificate,
  now: Date,
): Promise<Finding> {
  // Files that cannot be read are reported by `checkFiles`.
  const material = await readTlsFiles(files ?? developmentFiles(dataDir)).catch(() => null)
  const installed = material && new X509Certificate(material.cert)
  if (installed?.fingerprint256 === fingerprint256) {
    return ok('running', `${where} serves this certificate`)
  }
  const isOlder = installed !== null && validFromDate < installed.validFromDate
  const detail = `the running service ${isOlder ? 'still serves an older' : 'serves another'} certificate`
  const advice = files ? 'send it SIGHUP and look for tls.reload_failed in its log' : 'restart it'
  return validToDate <= now
    ? problem('running', `${detail}, which has expired: ${advice}`)
    : warning('running', `${detail}: ${advice}`)
}

/** Makes a TLS handshake and sends nothing, so it does not have to trust the other side. */
async function askForCertificate(host: string, port: number): Promise<Served> {
  const socket = connect({ host: LOCAL[host] ?? host, port, rejectUnauthorized: false })
  // An error after the answer changes nothing.
  socket.on('error', () => {})
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS)
  let isConnected = false
  try {
    await once(socket, 'connect', { signal })
    isConnected = true
    await once(socket, 'secureConnect', { signal })
    const certificate = socket.getPeerX509Certificate()
    return certificate
      ? { kind: 'certificate', certificate }
      : { kind: 'no-tls', reason: 'no certificate' }
  } catch (error) {
    const late = `no answer within ${ANSWER_WITHIN_MS / 1000} s`
    if (signal.aborted) return { kind: 'no-tls', reason: late }
    if (isConnected) return { kind: 'no-tls', reason: codeOf(error) || messageOf(error) }
    return { kind: 'nothing' }
  } finally {
    socket.destroy()
  }
}
