import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { warnOfIgnoredLines, warnOfUnknown } from './unknown-variables.ts'
import { VARIABLES } from './variables.ts'

const warningsFor = (...names: string[]) =>
  warnOfUnknown(Object.fromEntries(names.map(name => [name, 'x'])))

describe('a misspelt variable gives a warning with the probable name', () => {
  const MEANT: Record<string, string[]> = {
    CORS_ORIGINS: ['CORS_ORIGIN', 'CORS_ORIGNIS', 'CORSORIGINS'],
    TRUST_PROXY: ['TRUSTED_PROXY', 'TRUST_PROXYS', 'TRUTS_PROXY'],
    BCRYPT_COST: ['BCRYPT_COSTS', 'BRYPT_COST'],
    SIGNING_KEYS_FILE: ['SIGNING_KEY_FILE'],
    JWT_ISSUER: ['JWT_ISSUERS', 'JWT_ISUER', 'jwt_issuer'],
    DATABASE_URL: ['DATABASE_URI', 'DATABSE_URL', 'DATABASEURL'],
    THROTTLE_EMAIL_FAILURES: ['THROTTEL_EMAIL_FAILURE'],
    BRAND_COLOR: ['BRAND_COLOUR'],
    LOG_LEVEL: ['LOGLEVEL', 'LOG_LEVLE'],
    NODE_ENV: ['NODE_ENVS', 'NODE_EVN'],
    OPS_PORT: ['OPS_PROT', 'OP_PORT'],
  }
  for (const [meant, names] of Object.entries(MEANT)) {
    for (const name of names) {
      test(`${name}: ${meant}`, () => {
        assert.deepEqual(warningsFor(name), [
          `${name} is not a variable of this service and has no effect. Did you mean ${meant}?`,
        ])
      })
    }
  }
})

test('the variables of this service give no warning', () => {
  assert.deepEqual(warningsFor(...VARIABLES.map(({ name }) => name)), [])
})

test('the environment of an ordinary machine gives no warning', () => {
  const ordinary = `
    PATH HOME HOST_NAME HOSTNAME HOSTTYPE LOGNAME SHELL PWD OLDPWD LANG LANGUAGE LC_ALL TERM EDITOR VISUAL PAGER USER
    USERNAME MAIL SHLVL _ TZ TMPDIR TEMP DISPLAY COLORTERM LS_COLORS PS1 IFS OPTIND COLUMNS LINES BROWSER DEBUG CI
    FORCE_COLOR NO_COLOR SSH_CLIENT SSH_CONNECTION SSH_TTY SSH_AUTH_SOCK GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS
    XDG_DATA_DIRS XDG_DATA_HOME XDG_RUNTIME_DIR XDG_SESSION_ID SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE
    REQUESTS_CA_BUNDLE GIT_SSL_CAINFO HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy
    NODE_OPTIONS NODE_EXTRA_CA_CERTS NODE_PATH NODE_VERSION NODE_TLS_REJECT_UNAUTHORIZED NODE_COMPILE_CACHE NODE_DEBUG
    NODE_HOME NODE_ICU_DATA UV_THREADPOOL_SIZE YARN_VERSION npm_config_loglevel npm_config_cache npm_config_node_gyp
    npm_config_https_proxy npm_package_json npm_package_name npm_lifecycle_event npm_node_execpath npm_execpath INIT_CWD
    PGHOST PGPORT PGUSER PGPASSWORD PGDATABASE PGSSLMODE PGDATA POSTGRES_HOST POSTGRES_PORT POSTGRES_DB POSTGRES_URL
    DB_HOST DB_PORT DB_NAME DB_USER DB_URL DATABASE_HOST DATABASE_PORT DATABASE_NAME REDIS_HOST REDIS_PORT REDIS_URL
    REDIS_PORT_6379_TCP REDIS_SERVICE_HOST REDIS_SERVICE_PORT KUBERNETES_PORT KUBERNETES_SERVICE_HOST
    KUBERNETES_SERVICE_PORT KUBERNETES_SERVICE_PORT_HTTPS KUBERNETES_PORT_443_TCP_ADDR LOGIN_SERVICE_HOST
    LOGIN_SERVICE_PORT LOGIN_PORT LOGIN_PORT_8443_TCP POD_NAME POD_NAMESPACE POD_IP DOCKER_HOST DOCKER_TLS_VERIFY
    DOCKER_CERT_PATH DOCKER_CONFIG container CONTAINER_NAME INVOCATION_ID JOURNAL_STREAM NOTIFY_SOCKET LISTEN_FDS
    LISTEN_PID MAINPID MANAGERPID SYSTEMD_EXEC_PID STATE_DIRECTORY CREDENTIALS_DIRECTORY LOGS_DIRECTORY APP_HOST
    APP_PORT APP_ENV APP_NAME API_HOST API_PORT API_URL WEB_PORT WS_PORT MY_PORT SMTP_HOST SMTP_PORT LOG_FILE
    LOG_FORMAT LOG_DIR LOGS DATA DATA_PATH DATE_FORMAT BASE_URL HOME_PAGE GITHUB_ACTIONS GITHUB_ACTION GITHUB_SHA
    GITHUB_TOKEN GITHUB_WORKSPACE GITHUB_BASE_REF RUNNER_OS RUNNER_TEMP AWS_REGION AWS_ACCESS_KEY_ID GOOGLE_CLOUD_PROJECT
    TEST_DATABASE_URL POST HOSTS PORTS SIGNAL_FILE TERM_PROGRAM OTEL_EXPORTER_OTLP_ENDPOINT JAVA_HOME GOPATH VIRTUAL_ENV
  `
  assert.deepEqual(warningsFor(...ordinary.trim().split(/\s+/)), [])
})

test('a name that is far too long gives no warning', () => {
  assert.deepEqual(warningsFor('X'.repeat(1e6), 'TLS_'.repeat(1e5), `CORS_${'A_'.repeat(1e5)}`), [])
})

describe('a line of .env without "=" gives a warning that does not quote it', () => {
  const CASES: [string, string, number[]][] = [
    ['a name alone', 'PORT=1\nHOST\n', [2]],
    ['a colon instead', 'PORT: 9999\r\n\r\nHOST=x', [1]],
    ['comments, blank lines and export', '# PORT\n\n  \n  # x\nexport PORT=1\nHOST =x\nHOME=', []],
    ['a value of several lines', 'A="-----BEGIN\ncanary\n-----END" # x\nB\nC=\'\ncanary\n\'', [4]],
  ]
  for (const [name, text, lines] of CASES) {
    test(name, () => {
      assert.deepEqual(
        warnOfIgnoredLines(text),
        lines.map(line => `.env, line ${line}, has no "=" and has no effect. Write NAME=value.`),
      )
    })
  }
})
