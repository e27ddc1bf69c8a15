// What is configured, and which of it is unsafe.

import { isLoopback } from '../../config/addresses.ts'
import type { Config } from '../../config/config.ts'
import { type Finding, ok, warning } from './finding.ts'

/** NIST SP 800-63B allows no more than 100 failures in a row on one account. */
const EMAIL_FAILURES_WARNING = 100
const WIDEST_IPV4_BITS = 24
const WIDEST_IPV6_BITS = 64

export function checkConfiguration(config: Config): Finding[] {
  return [
    ...config.warnings.map(detail => warning('configuration', detail)),
    checkEnvironment(config),
    checkAddress(config),
    checkHealth(config),
    ok('tokens', `issued by ${config.tokens.issuer} for ${config.tokens.audience}`),
    ok('cors', describeOrigins(config)),
    checkThrottle(config),
    checkLog(config),
  ]
}

function checkEnvironment({ environment }: Config): Finding {
  return environment === 'production'
    ? ok('environment', environment)
    : warning('environment', `${environment}: set NODE_ENV=production to refuse unsafe settings`)
}

function checkAddress({ environment, host, port, trustedProxies }: Config): Finding {
  const address = `${host}, port ${port}`
  if (trustedProxies.length > 0) {
    const detail = `${address}, behind the TLS proxies ${trustedProxies.join(', ')}`
    const wide = trustedProxies.filter(isWide)
    if (wide.length === 0) return ok('address', detail)
    return warning(
      'address',
      `${detail}: every machine in ${wide.join(', ')} can claim any client address; list the proxies alone`,
    )
  }
  return environment === 'production' || isLoopback(host)
    ? ok('address', address)
    : warning('address', `${address}: others can reach this ${environment} service`)
}

/** More than the proxies of one service need. All of 127.0.0.0/8 is this machine. */
function isWide(range: string): boolean {
  const [address = '', bits = '128'] = range.split('/')
  if (isLoopback(address)) return false
  return Number(bits) < (address.includes(':') ? WIDEST_IPV6_BITS : WIDEST_IPV4_BITS)
}

function checkHealth({ opsHost, opsPort }: Config): Finding {
  if (opsPort === 0) return ok('health', 'off')
  const address = `${opsHost}, port ${opsPort}`
  return isLoopback(opsHost)
    ? ok('health', address)
    : warning('health', `${address}: others can reach it, without TLS; keep it inside your network`)
}

function describeOrigins({ corsOrigins, environment }: Config): string {
  if (corsOrigins) return corsOrigins.join(', ')
  return environment === 'production' ? 'none' : 'any, for development'
}

function checkThrottle({ budgets: { pair, email, client, network } }: Config): Finding {
  const detail = `${pair} failures per email and client, ${email} per email, ${client} per client, ${network} per network`
  return email > EMAIL_FAILURES_WARNING
    ? warning('throttle', `${detail}: too many to stop guessing`)
    : ok('throttle', detail)
}

function checkLog({ logLevel }: Config): Finding {
  return ['trace', 'debug', 'info'].includes(logLevel)
    ? ok('log', logLevel)
    : warning('log', `${logLevel}: logins leave no trace; set LOG_LEVEL=info`)
}
