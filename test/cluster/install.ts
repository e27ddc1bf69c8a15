// Installs what the cluster suites need and this machine lacks, from Debian's packages.
import { execFileSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { dirname } from 'node:path'

/** Each package with a file that it installs. */
const PACKAGES = {
  haproxy: '/usr/sbin/haproxy',
  nginx: '/usr/sbin/nginx',
  postgresql: '/usr/lib/postgresql/*/bin/pg_basebackup',
  patroni: '/usr/bin/patroni',
  'etcd-server': '/usr/bin/etcd',
  pgbouncer: '/usr/sbin/pgbouncer',
}
/** Debian's PostgreSQL would create and start a database of its own when it is installed. */
const NO_DATABASE = '/etc/postgresql-common/createcluster.d/none.conf'

const missing = Object.entries(PACKAGES).flatMap(([name, file]) =>
  globSync(file).length > 0 ? [] : [name],
)
if (missing.length > 0) {
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
