// Self-signed certificates for tests. `fromDays` and `toDays` count from now.
import { randomUUID, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { developmentFiles } from '../../src/http/connection/tls.ts'

const DAY_MS = 86_400_000

/** `ip`: an address for which it is valid, instead of a name; several of them can be trusted at once. */
type Options = {
  fromDays?: number
  toDays?: number
  keyType?: 'ec' | 'rsa'
  name?: string
  ip?: string
}

export type TestCertificate = { cert: string; key: string; fingerprint: string }

export async function makeCertificate({
  fromDays = -1,
  toDays = 100,
  keyType = 'ec',
  name = 'localhost',
  ip,
}: Options = {}): Promise<TestCertificate> {
  // Only a few test files need this large library.
  const { generate } = await import('selfsigned')
  const at = (days: number) => new Date(Date.now() + days * DAY_MS)
  const commonName = ip ? randomUUID() : name
  const { cert, private: key } = await generate([{ name: 'commonName', value: commonName }], {
    keyType,
    notBeforeDate: at(fromDays),
    notAfterDate: at(toDays),
    ...(ip && { extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip }] }] }),
  })
  return { cert, key, fingerprint: new X509Certificate(cert).fingerprint256 }
}

/** Writes a new certificate and its key to files; returns the variables that name them. */
export async function writeCertificate(folder: string, name: string, options: Options = {}) {
  const { cert, key } = await makeCertificate(options)
  const TLS_CERT_FILE = join(folder, `${name}.crt`)
  const TLS_KEY_FILE = join(folder, `${name}.key`)
  await writeFile(TLS_CERT_FILE, cert)
  await writeFile(TLS_KEY_FILE, key, { mode: 0o600 })
  return { TLS_CERT_FILE, TLS_KEY_FILE }
}

/**
 * Copies the development certificate that the test command made, because making another takes a service 0.2 s.
 * A service with its own certificate or behind a proxy makes none, so it gets none.
 */
export async function copyDevelopmentCertificate(
  dataDir: string,
  env: Record<string, string>,
): Promise<void> {
  const folder = process.env.TEST_TEMPLATES
  if (!folder || env.TLS_CERT_FILE || env.TRUST_PROXY) return
  const [made, copy] = [developmentFiles(folder), developmentFiles(dataDir)]
  await copyFile(made.certFile, copy.certFile)
  await copyFile(made.keyFile, copy.keyFile)
}

/** Does not verify the certificate. */
export async function shakeHands(
  url: string,
  options: ConnectionOptions & { localAddress?: string } = {},
): Promise<TLSSocket> {
  const port = Number(new URL(url).port)
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options })
  await once(socket, 'secureConnect')
  return socket
}

/** The fingerprint of the certificate that a new connection gets. */
export async function servedAt(url: string): Promise<string> {
  const socket = await shakeHands(url)
  const { fingerprint256 } = socket.getPeerCertificate()
  socket.destroy()
  return fingerprint256
}
