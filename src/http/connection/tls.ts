// The certificate: from the operator's files, or a self-signed one for development.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import type { Config, TlsFiles } from '../../config/config.ts'
import { DAY_MS } from '../../domain/lifetimes.ts'
import { makeFolder, replaceFile } from '../../system/files.ts'
import { checkReaders, type Finding, ok, unsafe, warning } from '../../system/finding.ts'

export type TlsMaterial = { cert: string; key: string }

/**
 * TLS 1.3, and TLS 1.2 with forward secrecy and authenticated encryption only. The client's order of
 * ciphers counts: a phone without AES in hardware is faster with ChaCha20.
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

/** This long before a certificate expires, a warning is logged every day. */
export const EXPIRY_WARNING_DAYS = 14

const VALID_DAYS = 365
const RENEW_DAYS = 30

/** Null without files behind a TLS proxy: the service then needs no certificate. */
export async function loadTls(
  config: Config,
  now: Date,
  files = config.tls,
): Promise<TlsMaterial | null> {
  if (!files && config.trustProxy.length > 0) return null
  if (!files) return developmentCertificate(config.dataDir, now)
  const material = await readTlsFiles(files)
  const { state, detail } = await checkCertificate(config, files, material, now)
  if (state === 'problem') throw new Error(detail)
  return material
}

/** Clients refuse a certificate that has expired or is not valid yet. */
export async function checkCertificate(
  config: Config,
  { certFile, keyFile }: TlsFiles,
  { cert }: TlsMaterial,
  now: Date,
): Promise<Finding> {
  const { validFromDate, validToDate, subjectAltName, subject } = new X509Certificate(cert)
  if (validToDate <= now) {
    return unsafe(config)('tls', `${certFile} expired on ${validToDate.toISOString()}: renew it`)
  }
  if (validFromDate > now) {
    const detail = `${certFile} is not valid before ${validFromDate.toISOString()}`
    return unsafe(config)('tls', `${detail}: is the clock right?`)
  }
  const readers = await checkReaders(config, 'tls', keyFile)
  if (readers) return readers
  const days = Math.floor(daysLeft(cert, now))
  const detail = `certificate for ${subjectAltName ?? subject}, ${days} days left`
  return days < EXPIRY_WARNING_DAYS ? warning('tls', `${detail}: renew it soon`) : ok('tls', detail)
}

/** Null if browsers accept the certificate for the public address. */
export function checkName({ tokens }: Config, { cert }: TlsMaterial): Finding | null {
  const certificate = new X509Certificate(cert)
  const host = new URL(tokens.issuer).hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) ? certificate.checkIP(host) : certificate.checkHost(host)) return null
  const names = certificate.subjectAltName ?? certificate.subject
  return warning(
    'tls',
    `certificate for ${names}, but JWT_ISSUER names ${host}: browsers refuse it`,
  )
}

export async function readTlsFiles({ certFile, keyFile }: TlsFiles): Promise<TlsMaterial> {
  const material = {
    cert: await readFile(certFile, 'utf8'),
    key: await readFile(keyFile, 'utf8'),
  }
  // Throws at the start instead of at the first handshake.
  createSecureContext({ ...material, ...TLS_OPTIONS })
  // createSecureContext() does not notice a key of another type.
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

/** Kept in a file, so that developers that trust it need not do so again after a restart. */
async function developmentCertificate(dataDir: string, now: Date): Promise<TlsMaterial> {
  const { certFile, keyFile } = developmentFiles(dataDir)
  try {
    const kept = await readTlsFiles({ certFile, keyFile })
    if (daysLeft(kept.cert, now) > RENEW_DAYS) return kept
  } catch {
    // There is none yet, or it cannot be used: a new one is made.
  }
  // Loaded only when needed: it is a heavy library.
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
  await makeFolder(dataDir)
  await replaceFile(keyFile, made.private, 0o600)
  await replaceFile(certFile, made.cert, 0o644)
  return { cert: made.cert, key: made.private }
}

export function expiryOf(cert: string): Date {
  return new X509Certificate(cert).validToDate
}

export function daysLeft(cert: string, now: Date): number {
  return (expiryOf(cert).getTime() - now.getTime()) / DAY_MS
}
