// Installs Debian's packages that a suite needs and this machine lacks.
import { execFileSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { dirname } from 'node:path'

/** Debian's PostgreSQL would create and start a database of its own when it is installed. */
const NO_DATABASE = '/etc/postgresql-common/createcluster.d/none.conf'

/** Each package with a file that it installs. */
export type Packages = Record<string, string>

export function missingOf(packages: Packages): string[] {
  return Object.keys(packages).filter(name => globSync(packages[name] ?? '').length === 0)
}

export function installMissing(packages: Packages): void {
  const missing = missingOf(packages)
  if (missing.length === 0) return
  if (missing.includes('postgresql')) {
    const setting = 'create_main_cluster = false'
    asRoot('sh', '-c', `mkdir -p ${dirname(NO_DATABASE)} && echo '${setting}' > ${NO_DATABASE}`)
  }
  asRoot('apt-get', 'update')
  asRoot(
    ...['env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get'],
    ...['install', '-y', '--no-install-recommends', ...missing],
  )
}

function asRoot(...command: string[]): void {
  const [file = '', ...args] = process.getuid?.() === 0 ? command : ['sudo', ...command]
  execFileSync(file, args, { stdio: 'inherit' })
}
