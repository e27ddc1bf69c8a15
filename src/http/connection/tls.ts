// The certificate: from the operator's files, or one of our own making for development.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import type { Config, TlsFiles } from '../../config/config.ts'
import { isOpenToAll, replaceFile } from '../../files.ts'

export type TlsMaterial = { cert: string; key: string }

/**
 * TLS 1.2 with forward secrecy and authenticated encryption only, and all of TLS 1.3. The caller
 * chooses among them: a phone without AES in hardware is faster with ChaCha20.
 */
export const TLS_OPTIONS = {
  minVersion: 'TLSv1.2',
  ciphers: [
    ...['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'],
    ...['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES128-GCM-SHA256'],
    ...['ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-RSA-AES256-GCM-SHA384'],
    ...['ECDHE-ECDSA-CHACHA20-POLY1305', 'ECDHE-RSA-CHACHA20-POLY1305'],
  ].join(':'),
  honorCipherOrder: false,
} satisfies SecureContextOptions

/** From then on the end of a certificate is told, daily. */
export const EXPIRY_WARNING_DAYS = 14

const VALID_DAYS = 365
const RENEW_DAYS = 30
export const DAY_MS = 86_400_000

/** Null behind a proxy that has the certificate. */
export async function loadTls(config: Config, now: Date): Promise<TlsMaterial | null> {
  if (config.tls) return readServable(config.tls, config.environment, now)
  if (config.trustedProxies.length > 0) return null
  return developmentCertificate(config.dataDir, now)
}

/** Production serves no certificate that clients refuse, and no key that everybody can read. */
async function readServable(
  files: TlsFiles,
  environment: Config['environment'],
  now: Date,
): Promise<TlsMaterial> {
  const material = await readTlsFiles(files)
  if (environment !== 'production') return material
  const { validFromDate, validToDate } = new X509Certificate(material.cert)
  if (validToDate <= now) {
    throw new Error(`${files.certFile} expired on ${validToDate.toISOString()}: renew it`)
  }
  if (validFromDate > now) {
    throw new Error(
      `${files.certFile} is not valid before ${validFromDate.toISOString()}: is the clock right?`,
    )
  }
  if (await isOpenToAll(files.keyFile)) {
    throw new Error(`${files.keyFile} can be read by everybody: chmod 640 it`)
  }
  return material
}

export async function readTlsFiles({ certFile, keyFile }: TlsFiles): Promise<TlsMaterial> {
  const material = {
    cert: await readFile(certFile, 'utf8'),
    key: await readFile(keyFile, 'utf8'),
  }
  // Throws now, with a clear word, rather than at the first handshake.
  createSecureContext({ ...material, ...TLS_OPTIONS })
  // Which does not notice a key of another type.
  if (!new X509Certificate(material.cert).checkPrivateKey(createPrivateKey(material.key))) {
    throw new Error(`key values mismatch: ${keyFile} is not the key of ${certFile}`)
  }
  return material
}

export function developmentFiles(dataDir: string): TlsFiles {
  return {
    certFile: join(dataDir, 'development-cert.pem'),
    keyFile: join(dataDir, 'development-key.pem'),
  }
}

/** Made once and kept, so that whoever trusts it need not do so again at the next start. */
async function developmentCertificate(dataDir: string, now: Date): Promise<TlsMaterial> {
  const { certFile, keyFile } = developmentFiles(dataDir)
  try {
    const kept = await readTlsFiles({ certFile, keyFile })
    if (daysLeft(kept.cert, now) > RENEW_DAYS) return kept
  } catch {
    // None yet, or none that can be used: a new one replaces it.
  }
  // A heavy library, for the first start only.
  const { generate } = await import('selfsigned')
  const made = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    notBeforeDate: new Date(now.getTime() - DAY_MS),
    notAfterDate: new Date(now.getTime() + VALID_DAYS * DAY_MS),
    extensions: [
      { name: 'basicConstraints', cA: false },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: [
          { type: 2, value: 'localhost' },
          { type: 7, ip: '127.0.0.1' },
          { type: 7, ip: '::1' },
        ],
      },
    ],
  })
  await mkdir(dataDir, { recursive: true })
  await replaceFile(keyFile, made.private, 0o600)
  await replaceFile(certFile, made.cert, 0o644)
  return { cert: made.cert, key: made.private }
}

export function daysLeft(cert: string, now: Date): number {
  return (new X509Certificate(cert).validToDate.getTime() - now.getTime()) / DAY_MS
}
