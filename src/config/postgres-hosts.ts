// DATABASE_URL may name several hosts, as in postgres://a:5432,b:5432/login. The driver knows only one.

/** `start` ends before the hosts, `rest` begins after them. */
function splitUrl(url: string): { start: string; hosts: string[]; rest: string } {
  // A password may contain a comma.
  const [, start = '', hosts = '', rest = ''] =
    /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s.exec(url) ?? []
  return { start, hosts: hosts.split(','), rest }
}

/** Leaves out the password and all parameters but `sslmode`: one of them may be the password too. */
export function describeUrl(url: string): string {
  const { start, hosts, rest } = splitUrl(url)
  const user = start.replace(/(\/\/[^:]*):.*@$/s, '$1:***@')
  const [path] = rest.split(/[?#]/)
  const mode = parameterOf(url, 'sslmode')
  return `${user}${hosts.join(',')}${path}${mode ? `?sslmode=${mode}` : ''}`
}

/** One address per host. */
export function addressesOf(url: string): string[] {
  const { start, hosts, rest } = splitUrl(url)
  return hosts.map(host => `${start}${host}${rest}`)
}

/** The problem of an address that the service cannot use, or null. Does not repeat it: it may have a password. */
export function checkAddresses(url: string): string | null {
  const { hosts } = splitUrl(url)
  const isWellFormed = addressesOf(url).every(address => URL.canParse(address))
  if (!isWellFormed || (hosts.length > 1 && hosts.some(host => /^(:|$)/.test(host)))) {
    return 'DATABASE_URL must look like postgres://user:password@host:5432/name, or postgres://user:password@host1:5432,host2:5432/name.'
  }
  if (/,/.test(parameterOf(url, 'host') ?? '') || /,/.test(parameterOf(url, 'port') ?? '')) {
    return 'DATABASE_URL must name several hosts before the name of the database, as in postgres://host1:5432,host2:5432/name.'
  }
  const wanted = parameterOf(url, 'target_session_attrs')
  if (wanted !== undefined && wanted !== 'read-write') {
    return 'In DATABASE_URL target_session_attrs must be read-write: the service needs a server that accepts writes.'
  }
  return null
}

/** Whether a connection is used only if its server accepts writes and was not replaced by another one. */
export function mustBeWritable(url: string): boolean {
  const isStated = parameterOf(url, 'target_session_attrs') === 'read-write'
  return isStated || splitUrl(url).hosts.length > 1
}

/** The driver takes the last of several values. */
function parameterOf(url: string, name: string): string | undefined {
  const [address = ''] = addressesOf(url)
  return new URL(address).searchParams.getAll(name).at(-1)
}
