// Reports the configuration and warns of unsafe settings.
import { isLoopback } from '../../config/addresses.ts'
import { type Config, logsAttempts, tokensAt } from '../../config/config.ts'
import { type Finding, ok, warning } from '../../system/finding.ts'

/** NIST SP 800-63B-4, 3.2.2 allows at most 100 consecutive failures on one account. */
const EMAIL_FAILURES_WARNING = 100
/** A network with a shorter prefix has more addresses than the proxies of one service need. */
const WIDEST_IPV4_BITS = 24
const WIDEST_IPV6_BITS = 64

export function checkConfiguration(config: Config): Finding[] {
  return [
    ...config.warnings.map(detail => warning('configuration', detail)),
    checkEnvironment(config),
    checkAddress(config),
    checkHealth(config),
    ...checkAdmin(config),
    ok('tokens', describeTokens(config)),
    ok('cors', describeOrigins(config)),
    checkThrottle(config),
    checkLog(config),
  ]
}

function checkEnvironment({ nodeEnv }: Config): Finding {
  return nodeEnv === 'production'
    ? ok('environment', nodeEnv)
    : warning('environment', `${nodeEnv}: set NODE_ENV=production to refuse unsafe settings`)
}

function checkAddress({ nodeEnv, host, port, trustProxy }: Config): Finding {
  const address = port === 0 ? `${host}, a port chosen at the start` : `${host}, port ${port}`
  if (trustProxy.length > 0) {
    const detail = `${address}, behind the TLS proxies ${trustProxy.join(', ')}`
    const wide = trustProxy.filter(isWide)
    if (wide.length === 0) return ok('address', detail)
    return warning(
      'address',
      `${detail}: every machine in ${wide.join(', ')} can claim any client address; list the proxies alone`,
    )
  }
  return nodeEnv === 'production' || isLoopback(host)
    ? ok('address', address)
    : warning(
        'address',
        `${address}: other machines can reach this ${nodeEnv} service; set HOST to 127.0.0.1`,
      )
}

/** False for 127.0.0.0/8: all of its addresses are this machine. */
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

/** Every machine that can reach the port can use a stolen token. */
function checkAdmin({ adminHost, adminPort }: Config): Finding[] {
  if (adminPort === 0) return []
  const address = `${adminHost}, port ${adminPort}`
  return [
    isLoopback(adminHost)
      ? ok('admin API', address)
      : warning('admin API', `${address}: others can reach it; keep it inside your network`),
  ]
}

/** With PORT=0, the default issuer and audience get their port when the service starts. */
function describeTokens(config: Config): string {
  const { issuer, audience } = config.port === 0 ? tokensAt('PORT', config) : config.tokens
  const isPortMissing = issuer !== config.tokens.issuer || audience !== config.tokens.audience
  const port = isPortMissing ? ', with the port chosen at the start' : ''
  return `issued by ${issuer} for ${audience}${port}`
}

function describeOrigins({ corsOrigins, nodeEnv }: Config): string {
  if (corsOrigins) return corsOrigins.join(', ')
  return nodeEnv === 'production'
    ? 'none'
    : 'any origin without credentials, origins of this machine with credentials'
}

function checkThrottle({ budgets: { pair, email, client, network } }: Config): Finding {
  const detail = `${pair} failures per email and client, ${email} per email, ${client} per client, ${network} per network`
  return email > EMAIL_FAILURES_WARNING
    ? warning(
        'throttle',
        `${detail}: too many per email to stop guessing; set THROTTLE_EMAIL_FAILURES to at most ${EMAIL_FAILURES_WARNING}`,
      )
    : ok('throttle', detail)
}

function checkLog({ logLevel }: Config): Finding {
  return logsAttempts(logLevel)
    ? ok('log', logLevel)
    : warning('log', `${logLevel}: logins are not logged; set LOG_LEVEL=info`)
}
