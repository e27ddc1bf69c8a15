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
  const { nodeEnv, opsHost, opsPort, adminHost, adminPort, logLevel, budgets } = config
  const { pair, email, client, network } = budgets
  const budget = `${pair} failures per email and client, ${email} per email, ${client} per client, ${network} per network`
  const tooMany = `too many per email to stop guessing; set THROTTLE_EMAIL_FAILURES to at most ${EMAIL_FAILURES_WARNING}`
  const toRefuse = 'set NODE_ENV=production to refuse unsafe settings'
  return [
    ...config.warnings.map(detail => warning('configuration', detail)),
    setting('environment', nodeEnv, nodeEnv !== 'production' && toRefuse),
    checkAddress(config),
    opsPort === 0 ? ok('health', 'off') : checkInner('health', opsHost, opsPort, ', without TLS'),
    // Every machine that can reach the port can use a stolen token.
    ...(adminPort === 0 ? [] : [checkInner('admin API', adminHost, adminPort)]),
    ...checkConsole(config),
    ok('tokens', describeTokens(config)),
    ok('cors', describeOrigins(config)),
    setting('throttle', budget, email > EMAIL_FAILURES_WARNING && tooMany),
    setting(
      'log',
      logLevel,
      !logsAttempts(logLevel) && 'logins are not logged; set LOG_LEVEL=info',
    ),
  ]
}

/** `advice` is what to do about a setting that is not safe. */
function setting(check: string, detail: string, advice: string | false): Finding {
  return advice ? warning(check, `${detail}: ${advice}`) : ok(check, detail)
}

function checkInner(check: string, host: string, port: number, how = ''): Finding {
  const advice = `others can reach it${how}; keep it inside your network`
  return setting(check, `${host}, port ${port}`, !isLoopback(host) && advice)
}

function checkConsole({ console, nodeEnv, tokens, ...config }: Config): Finding[] {
  if (!console) return []
  const { adminHost, adminPort, adminOrigin, adminTrustProxy } = config
  const roles = [...console.adminRoles, ...console.helpdeskRoles].join(', ')
  const detail = `at ${adminOrigin ?? `port ${adminPort}`}, for ${roles}`
  // Browsers send the cookies of a host to all its ports.
  const host = adminOrigin && new URL(adminOrigin).hostname
  const isShared = nodeEnv === 'production' && host === new URL(tokens.issuer).hostname
  const wide = adminTrustProxy.filter(isWide).join(', ')
  const isOpen = ['0.0.0.0', '::'].includes(adminHost)
  const advice = [
    nodeEnv === 'production' && !adminOrigin && 'set ADMIN_ORIGIN to its address in browsers',
    isShared &&
      'every program on this host name gets its cookie; give it a host name of its own in ADMIN_ORIGIN',
    isOpen && 'everything that reaches this machine reaches it; set ADMIN_HOST to an inner address',
    wide && `every machine in ${wide} can claim any client address; list the proxies alone`,
  ].filter(Boolean)
  return [setting('console', detail, advice.join('; and ') || false)]
}

function checkAddress({ nodeEnv, host, port, trustProxy }: Config): Finding {
  const address = port === 0 ? `${host}, a port chosen at the start` : `${host}, port ${port}`
  if (trustProxy.length > 0) {
    const wide = trustProxy.filter(isWide).join(', ')
    const advice = `every machine in ${wide} can claim any client address; list the proxies alone`
    const detail = `${address}, behind the TLS proxies ${trustProxy.join(', ')}`
    return setting('address', detail, wide !== '' && advice)
  }
  const isSafe = nodeEnv === 'production' || isLoopback(host)
  const advice = `other machines can reach this ${nodeEnv} service; set HOST to 127.0.0.1`
  return setting('address', address, !isSafe && advice)
}

/** False for 127.0.0.0/8: all of its addresses are this machine. */
function isWide(range: string): boolean {
  const [address = '', bits = '128'] = range.split('/')
  if (isLoopback(address)) return false
  return Number(bits) < (address.includes(':') ? WIDEST_IPV6_BITS : WIDEST_IPV4_BITS)
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
