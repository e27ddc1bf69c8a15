// Installs what the suites of deploy/, docs/integrating.md and the OpenAPI documents need.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { installMissing } from '../../support/debian-packages.ts'

installMissing({
  'systemd-container': '/usr/bin/systemd-nspawn',
  mmdebstrap: '/usr/bin/mmdebstrap',
  slirp4netns: '/usr/bin/slirp4netns',
  nginx: '/usr/sbin/nginx',
  caddy: '/usr/bin/caddy',
  prometheus: '/usr/bin/prometheus',
  sqlite3: '/usr/bin/sqlite3',
  'python3-jwt': '/usr/lib/python3/dist-packages/jwt/__init__.py',
  'python3-cryptography': '/usr/lib/python3/dist-packages/cryptography/__init__.py',
  'golang-go': '/usr/bin/go',
  'golang-github-golang-jwt-jwt-dev': '/usr/share/gocode/src/github.com/golang-jwt/jwt/go.mod',
  'python3-yaml': '/usr/lib/python3/dist-packages/yaml/__init__.py',
  zsh: '/usr/bin/zsh',
  fish: '/usr/bin/fish',
  oathtool: '/usr/bin/oathtool',
})

const TOOLS = join(import.meta.dirname, 'tools')
if (!existsSync(join(TOOLS, 'node_modules'))) {
  execFileSync('npm', ['ci', '--ignore-scripts', '--prefix', TOOLS], { stdio: 'inherit' })
}
