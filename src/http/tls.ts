// The certificate: from the operator's files, or one of our own making for development.
import { X509Certificate } from 'node:crypto'
import { mkdir, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import type { Config, TlsFiles } from '../config.ts'
import { writeDraft } from '../draft.ts'

export type TlsMaterial = { cert: string; key: string }

const VALID_DAYS = 365
const RENEW_DAYS = 30
const DAY_MS = 86_400_000

/** Null behind a proxy that has the certificate. */
export async function loadTls(config: Config, now: Date): Promise<TlsMaterial | null> {
  if (config.tls) return readTlsFiles(config.tls)
  if (config.trustedProxies.length > 0) return null
  return developmentCertificate(config.dataDir, now)
}

export async function readTlsFiles({ certFile, keyFile }: TlsFiles): Promise<TlsMaterial> {
  const material = {
    cert: await readFile(certFile, 'utf8'),
    key: await readFile(keyFile, 'utf8'),
  }
  // Throws now, with a clear word, rather than at the first handshake.
  createSecureContext(material)
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
  await rename(await writeDraft(keyFile, made.private, 0o600), keyFile)
  await rename(await writeDraft(certFile, made.cert, 0o644), certFile)
  return { cert: made.cert, key: made.private }
}

export function daysLeft(cert: string, now: Date): number {
  return (new X509Certificate(cert).validToDate.getTime() - now.getTime()) / DAY_MS
}
