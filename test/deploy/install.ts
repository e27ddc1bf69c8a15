// Installs what the suites of deploy/ need.
import { installMissing } from '../debian-packages.ts'

installMissing({
  'systemd-container': '/usr/bin/systemd-nspawn',
  mmdebstrap: '/usr/bin/mmdebstrap',
  slirp4netns: '/usr/bin/slirp4netns',
  nginx: '/usr/sbin/nginx',
  caddy: '/usr/bin/caddy',
  'python3-yaml': '/usr/lib/python3/dist-packages/yaml/__init__.py',
})
