// Installs what the cluster suites need.
import { installMissing } from '../../support/debian-packages.ts'

installMissing({
  haproxy: '/usr/sbin/haproxy',
  nginx: '/usr/sbin/nginx',
  postgresql: '/usr/lib/postgresql/*/bin/pg_basebackup',
  patroni: '/usr/bin/patroni',
  'etcd-server': '/usr/bin/etcd',
  pgbouncer: '/usr/sbin/pgbouncer',
})
