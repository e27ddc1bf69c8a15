// The address of the login page, with a host name from the certificate.
import { X509Certificate } from 'node:crypto'
import { defaultIssuer } from '../../config/addresses.ts'
import type { Config } from '../../config/config.ts'
import type { TlsMaterial } from '../connection/tls.ts'

/** On these hosts the service answers at "localhost", the name in the development certificate. */
const LOCAL_HOSTS = ['127.0.0.1', '::1', 'localhost', '0.0.0.0', '::']

/** Null if the service cannot know it. */
export function pageAddress(
  config: Config,
  tls: TlsMaterial | null,
  boundPort: number,
): string | null {
  const issuer = givenIssuer(config)
  // The service does not know the proxy's port; the issuer contains it.
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

/** The certificate's first host name; for "*.example.com", the issuer's host if the certificate covers it. */
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
