// Where people find the login page, under a name that the certificate has.
import { X509Certificate } from 'node:crypto'
import { defaultIssuer } from '../../config/addresses.ts'
import type { Config } from '../../config/config.ts'
import type { TlsMaterial } from '../connection/tls.ts'

/** Listening here, the service answers at "localhost", which the development certificate is for. */
const LOCAL_HOSTS = ['127.0.0.1', '::1', 'localhost', '0.0.0.0', '::']

/** Null where only the operator knows it. */
export function pageAddress(
  config: Config,
  tls: TlsMaterial | null,
  boundPort: number,
): string | null {
  const issuer = givenIssuer(config)
  // The proxy's port is not known here, the issuer's is.
  if (tls === null) return issuer && new URL('/login', issuer).href
  const isReachable = config.tls !== null || LOCAL_HOSTS.includes(config.host)
  const name = isReachable ? nameIn(tls.cert, issuer) : config.host
  if (name === null) return null
  const host = name.includes(':') ? `[${name}]` : name
  return new URL(`https://${host}:${boundPort}/login`).href
}

function givenIssuer({ tokens, port }: Config): URL | null {
  if (tokens.issuer === defaultIssuer(port)) return null
  const issuer = new URL(tokens.issuer)
  return issuer.protocol === 'https:' ? issuer : null
}

/** The first host name; of a certificate for "*.example.com", the issuer's if it is one of these. */
function nameIn(cert: string, issuer: URL | null): string | null {
  const certificate = new X509Certificate(cert)
  const names = certificate.subjectAltName?.split(', ') ?? []
  const issuerHost = issuer?.hostname
  const isCovered = issuerHost !== undefined && certificate.checkHost(issuerHost) !== undefined
  const first = (pattern: RegExp) => names.flatMap(name => pattern.exec(name)?.[1] ?? [])[0]
  return (
    first(/^DNS:([\w.-]+)$/) ??
    (isCovered ? issuerHost : null) ??
    first(/^IP Address:([\da-f.:]+)$/i) ??
    null
  )
}
