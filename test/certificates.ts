// Self-signed certificates for tests. `fromDays` and `toDays` count from now.
import { X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generate } from 'selfsigned'

const DAY_MS = 86_400_000

type Options = { fromDays?: number; toDays?: number; keyType?: 'ec' | 'rsa' }

export type TestCertificate = { cert: string; key: string; fingerprint: string }

export async function makeCertificate({
  fromDays = -1,
  toDays = 100,
  keyType = 'ec',
}: Options = {}): Promise<TestCertificate> {
  const at = (days: number) => new Date(Date.now() + days * DAY_MS)
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType,
    notBeforeDate: at(fromDays),
    notAfterDate: at(toDays),
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
