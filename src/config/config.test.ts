import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { describe, mock, test } from 'node:test'
import pg from 'pg'
import { describeDatabase } from '../storage/open-store.ts'
import { type Config, ConfigError, loadConfig } from './config.ts'
import { decideEncryption, type Encryption } from './postgres-tls.ts'
import { warnOfIgnoredLines, warnOfUnknown } from './unknown-variables.ts'
import { LOG_LEVELS, toCamelCase, VARIABLES } from './variables.ts'

const NAMES = VARIABLES.map(({ name }) => name)

/** The tokens of an issuer, unless something else is said of them. */
const tokensOf = (issuer: string, other: Partial<Config['tokens']> = {}) => ({
  tokens: { issuer, audience: issuer, accessSeconds: 3600, ...other },
  passkeyRpId: /^https?:\/\/([a-z.]+)/.exec(issuer)?.[1] ?? null,
})

type Taken = [env: Record<string, string>, expected: Partial<Config>]

const PRODUCTION = {
  NODE_ENV: 'production',
  TRUST_PROXY: '10.0.0.0/8',
  SIGNING_KEYS_FILE: '/run/keys.json',
  JWT_ISSUER: 'https://login.example.com',
}

const TLS = { TLS_CERT_FILE: '/run/cert.pem', TLS_KEY_FILE: '/run/key.pem' }

function problemsOf(env: Record<string, string>): string[] {
  try {
    loadConfig(env)
  } catch (error) {
    assert.ok(error instanceof ConfigError)
    return error.problems
  }
  return []
}

describe('configuration', () => {
  test('an empty environment gives the documented defaults', () => {
    const defaults = {
      ...{ nodeEnv: 'development', host: '127.0.0.1', port: 8443, opsPort: 9443, adminPort: 0 },
      ...{ tls: null, adminTls: null, trustProxy: [], corsOrigins: null, returnToOrigins: [] },
      ...{ dataDir: resolve('data'), signingKeysFile: resolve('data/signing-keys.json') },
      database: { engine: 'sqlite', file: resolve('data/login.db') },
      page: {
        ...{ brandName: 'Login Service', logoFile: null, brandColor: '#3451b2' },
        ...{ helpText: null, helpUrl: null, termsUrl: null, privacyUrl: null, homeUrl: null },
      },
      ...tokensOf('https://localhost:8443'),
      ...{ bcryptCost: 12, passwordEngine: 'lanes', loginTimeMs: 1_000, maxSessionsPerUser: 100 },
      passwordRules: { minLength: 8, brandName: 'Login Service' },
      budgets: { pair: 5, email: 20, client: 50, network: 500 },
      ...{ cookieIdleSeconds: 1_800, sessionMaxSeconds: 2_592_000, drainDelayMs: null },
      ...{ secondFactor: 'on', secondFactorRoles: [], adminRoles: [], helpdeskRoles: [] },
      ...{ console: null, adminOrigin: null, adminTrustProxy: [] },
      ...{ logLevel: 'info', logIp: 'full', auditDays: 0, warnings: [] },
    }
    assert.deepEqual({ ...loadConfig({}), ...defaults }, loadConfig({}))
  })

  test('a variable that is empty or white space counts as not set', () => {
    const blank = Object.fromEntries(VARIABLES.map(({ name }) => [name, ' \t']))
    assert.deepEqual(loadConfig(blank), loadConfig({}))
  })

  test('reads every variable of the table, and no other', () => {
    const read = new Set<string>()
    const recorded = (env: Record<string, string>) =>
      new Proxy(env, {
        get(target, name: string) {
          read.add(name)
          return target[name]
        },
      })
    loadConfig(recorded(PRODUCTION))
    // Without a host and a mode in the URL, the driver's own variables decide.
    loadConfig(recorded({ DATABASE_URL: 'postgres:///login', PGHOST: 'db' }))
    const ofDriver = ['PGHOST', 'PGSSLMODE']
    assert.deepEqual([...read].toSorted(), [...NAMES, ...ofDriver].toSorted())
  })

  const url = 'postgresql://u@db:5433/login?sslmode=require'
  const TAKEN: Taken[] = [
    [
      {
        ...{ NODE_ENV: 'test', HOST: ' 0.0.0.0 ', OPS_HOST: '::1', OPS_PORT: '0' },
        ...{ ADMIN_HOST: '::1', ADMIN_PORT: '8444', BCRYPT_COST: '4', ACCESS_TOKEN_SECONDS: '1' },
        ...{ JWT_ISSUER: 'https://i.example', JWT_AUDIENCE: 'api' },
      },
      {
        ...{ nodeEnv: 'test', host: '0.0.0.0', opsHost: '::1', opsPort: 0 },
        ...{ adminHost: '::1', adminPort: 8444, bcryptCost: 4 },
        ...tokensOf('https://i.example', { audience: 'api', accessSeconds: 1 }),
      },
    ],
    [{ PORT: '65535' }, { port: 65535, ...tokensOf('https://localhost:65535') }],
    [
      { DATA_DIR: '/var/lib/login' },
      {
        dataDir: '/var/lib/login',
        database: { engine: 'sqlite', file: '/var/lib/login/login.db' },
        signingKeysFile: '/var/lib/login/signing-keys.json',
      },
    ],
    [{ DATABASE_URL: url }, { database: { engine: 'postgres', url, poolSize: 10 } }],
    [
      { DATABASE_URL: 'postgres://u:p@db/login', DATABASE_POOL_SIZE: '200' },
      { database: { engine: 'postgres', url: 'postgres://u:p@db/login', poolSize: 200 } },
    ],
    [
      {
        ...{ TLS_CERT_FILE: 'a.pem', TLS_KEY_FILE: '/b.pem', ADMIN_PORT: '8444' },
        ...{ ADMIN_TLS_CERT_FILE: '/c.pem', ADMIN_TLS_KEY_FILE: '/d.pem' },
        ...{ SIGNING_KEYS_FILE: '/run/keys.json', TRUST_PROXY: '10.0.0.0/8, ::1' },
      },
      {
        ...{ tls: { certFile: resolve('a.pem'), keyFile: '/b.pem' }, adminPort: 8_444 },
        adminTls: { certFile: '/c.pem', keyFile: '/d.pem' },
        ...{ signingKeysFile: '/run/keys.json', trustProxy: ['10.0.0.0/8', '::1'] },
      },
    ],
    [{ ADMIN_TLS_CERT_FILE: '/a.pem', ADMIN_TLS_KEY_FILE: '/b.pem' }, {}],
    [
      {
        TRUST_PROXY: '192.0.2.1,2001:db8::/32,',
        CORS_ORIGINS: 'https://a.example, https://localhost:3000',
        RETURN_TO_ORIGINS: 'https://b.example, https://localhost:3000',
        CODE_CALLBACKS: 'https://a.example/in, https://[::1]:3000/, http://localhost:3000/a%2Fb',
      },
      {
        trustProxy: ['192.0.2.1', '2001:db8::/32'],
        corsOrigins: ['https://a.example', 'https://localhost:3000'],
        returnToOrigins: ['https://b.example', 'https://localhost:3000'],
        codeCallbacks: [
          ...['https://a.example/in', 'https://[::1]:3000/'],
          'http://localhost:3000/a%2Fb',
        ],
      },
    ],
    [{ CORS_ORIGINS: ',' }, { corsOrigins: [] }],
    [
      {
        ...{ BRAND_NAME: ' Ä & <Co> ', BRAND_COLOR: '#A1f', BRAND_LOGO_FILE: 'logo.svg' },
        ...{ HELP_TEXT: 'Call 1234.', HELP_URL: 'tel:1234', HOME_URL: 'http://localhost:3000/' },
        ...{ TERMS_URL: 'https://a.example/terms', PRIVACY_URL: 'https://a.example' },
      },
      {
        page: {
          ...{ brandName: 'Ä & <Co>', brandColor: '#aa11ff', logoFile: resolve('logo.svg') },
          ...{ helpText: 'Call 1234.', helpUrl: 'tel:1234', homeUrl: 'http://localhost:3000/' },
          ...{ termsUrl: 'https://a.example/terms', privacyUrl: 'https://a.example/' },
        },
        passwordRules: { minLength: 8, brandName: 'Ä & <Co>' },
      },
    ],
    ...[
      ...['https://i.example', 'https://i.example/', 'https://i.example:444/a/b'],
      ...['http://localhost:3000', 'http://127.0.0.1:3000', 'http://[::1]:3000'],
      `https://${'i'.repeat(92)}`,
    ].map((issuer): Taken => [{ JWT_ISSUER: issuer }, tokensOf(issuer)]),
    [
      {
        ...{ BCRYPT_COST: '10', LOGIN_TIME_MS: '500', PASSWORD_ENGINE: 'native' },
        ...{ MAX_SESSIONS_PER_USER: '1', SESSION_IDLE_MINUTES: '5', SESSION_MAX_DAYS: '1' },
        ...{ DRAIN_DELAY_MS: '0', PASSWORD_MIN_LENGTH: '15' },
        ...{ THROTTLE_PAIR_FAILURES: '1', THROTTLE_EMAIL_FAILURES: '1000000000' },
        ...{ THROTTLE_CLIENT_FAILURES: '7', THROTTLE_NETWORK_FAILURES: '8' },
      },
      {
        ...{ bcryptCost: 10, loginTimeMs: 500, passwordEngine: 'native', maxSessionsPerUser: 1 },
        ...{ cookieIdleSeconds: 300, sessionMaxSeconds: 86_400, drainDelayMs: 0 },
        passwordRules: { minLength: 15, brandName: 'Login Service' },
        budgets: { pair: 1, email: 1e9, client: 7, network: 8 },
      },
    ],
    [
      {
        ...{ BCRYPT_COST: '15', LOGIN_TIME_MS: '5000', MAX_SESSIONS_PER_USER: '1000' },
        ...{ SESSION_IDLE_MINUTES: '1440', SESSION_MAX_DAYS: '90', DRAIN_DELAY_MS: '60000' },
      },
      {
        ...{ bcryptCost: 15, loginTimeMs: 5_000, maxSessionsPerUser: 1_000 },
        ...{ cookieIdleSeconds: 86_400, sessionMaxSeconds: 7_776_000, drainDelayMs: 60_000 },
      },
    ],
    ...(
      [
        ['*', ['*']],
        [' admin , chief editor,Ä ', ['admin', 'chief editor', 'Ä']],
        ['🦊'.repeat(50), ['🦊'.repeat(50)]],
      ] as const
    ).map(
      ([SECOND_FACTOR_ROLES, secondFactorRoles]): Taken => [
        { SECOND_FACTOR_ROLES },
        { secondFactorRoles },
      ],
    ),
    [
      { SECOND_FACTOR: 'off', SECOND_FACTOR_ROLES: 'admin' },
      { secondFactor: 'off', secondFactorRoles: ['admin'] },
    ],
    [
      { ADMIN_PORT: '8444', ADMIN_ROLES: 'admin, owner', HELPDESK_ROLES: 'help desk' },
      {
        ...{ adminPort: 8444, adminRoles: ['admin', 'owner'], helpdeskRoles: ['help desk'] },
        console: {
          ...{
            adminRoles: ['admin', 'owner'],
            helpdeskRoles: ['help desk'],
            demandingRoles: [],
            passkeyRpId: null,
          },
        },
      },
    ],
    [
      { ADMIN_ORIGIN: 'https://a.example:444', ADMIN_TRUST_PROXY: '10.0.0.0/8, ::1' },
      { adminOrigin: 'https://a.example:444', adminTrustProxy: ['10.0.0.0/8', '::1'] },
    ],
    ...LOG_LEVELS.map((logLevel): Taken => [{ LOG_LEVEL: logLevel }, { logLevel }]),
  ]
  for (const [env, expected] of TAKEN) {
    test(`takes ${JSON.stringify(env)} and changes nothing else`, () => {
      const config: Record<string, unknown> = loadConfig(env)
      const names = Object.keys(env).map(toCamelCase)
      const given = Object.fromEntries(names.map(name => [name, config[name]]))
      assert.deepEqual(config, { ...loadConfig({}), ...given, ...expected })
    })
  }

  const NOT_ORIGINS = [
    ...['*', 'null', 'a.example', 'https://a.example/', 'https://A.example', 'https://*.example'],
    ...['https://a.example:443', 'https://a.example/path', 'https://u:p@a.example', '//a.example'],
    'javascript:alert(1)',
  ]
  const REFUSED: Record<string, string[]> = {
    NODE_ENV: ['prod', 'Production', 'staging'],
    PORT: ['-1', '65536', '80.5', '0x50', '8443a', '1e3', '٨', '99999999999'],
    OPS_PORT: ['65536', 'off'],
    ADMIN_PORT: ['65536', 'off'],
    ADMIN_ROLES: ['admin,,x', '*', 'user', 'admin,user', 'r'.repeat(51)],
    HELPDESK_ROLES: [',', '*', 'user', 'desk,user', '*,desk'],
    ADMIN_ORIGIN: ['console.example', 'https://a.example/', 'http://a.example', 'https://u@a.b'],
    ADMIN_TRUST_PROXY: ['1', '0.0.0.0/0', 'localhost'],
    DATABASE_URL: ['login.db', 'mysql://u@db/login', '//db/login', 'postgres:', 'postgres'],
    DATABASE_POOL_SIZE: ['0', '201'],
    TLS_CERT_FILE: ['a.pem'],
    TLS_KEY_FILE: ['a.pem'],
    ADMIN_TLS_CERT_FILE: ['a.pem'],
    ADMIN_TLS_KEY_FILE: ['a.pem'],
    TRUST_PROXY: [
      ...['1', 'true', '10.1', '10.1/8', '1/8', '*', 'localhost', 'loopback', '10.0.0.0/33', '/8'],
      ...['0.0.0.0/0', '128.0.0.0/1', '8000::/1', '::/0', '0.0.0.0/00', '::/00', '10.0.0.0/'],
      ...['010.0.0.1', '::1/129'],
      ...[
        '64:ff9b::/96',
        '64:ff9b::a00:1',
        '::ffff:10.0.0.1',
        '::ffff:0:0/96',
        '10.0.0.0/8 ::1',
        '10.0.0.1/8/8',
        '10.0.0.0/8, 1',
      ],
    ],
    CORS_ORIGINS: NOT_ORIGINS,
    RETURN_TO_ORIGINS: NOT_ORIGINS,
    CODE_CALLBACKS: [
      ...['a.example', '/in', '//a.example/in', 'https://a.example', 'http://a.example/in', '*'],
      ...['https://u@a.example/in', 'https://u:p@a.example/in', 'https://@a.example/in'],
      ...['https://a.example/in?', 'https://a.example/in?a=b', 'https://a.example/in#'],
      ...['javascript:x', 'ws://localhost/in', 'https://é.example/'],
      ...['https://A.example/in', 'https://a.example:443/in', 'https://a.example/b/../in'],
      ...['https://a.example\\in', 'https://a.example/i n'],
    ],
    BRAND_NAME: ['x'.repeat(61), 'two\nlines', 'a\u0000b'],
    HELP_TEXT: ['x'.repeat(201), 'two\nlines'],
    HELP_URL: ['help', 'http://a.example', 'javascript:alert(1)', 'data:text/html,x'],
    TERMS_URL: ['/terms', 'mailto:a@a.example', 'https://u:p@a.example', 'javascript:alert(1)'],
    PRIVACY_URL: ['//a.example', 'http://a.example', 'tel:1234'],
    HOME_URL: ['a.example', 'http://a.example', 'javascript:alert(1)//https://a.example'],
    BRAND_COLOR: ['blue', '345', '#12', '#12345', '#12345g', '#123;}', '#1234567', 'rgb(0,0,0)'],
    JWT_ISSUER: [
      ...['login.example.com', 'login', '//i.example', 'https:', 'https://', 'https:i.example'],
      ...['urn:login', 'ftp://i.example', 'javascript:alert(1)', 'ü'.repeat(51), '"'.repeat(51)],
      ...['https://i.example?tenant=1', 'https://i.example/?', 'https://i.example/#a'],
      ...['https://i.example#', 'https://u@i.example', 'https://u:p@i.example'],
      ...['https://I.example', 'HTTPS://i.example', 'https://i.example:443', 'https://ü.example'],
      ...['https://i.example/a b', 'https://i.example/a/../b', 'http://i.example'],
      ...['http://localhost.example', 'http://127.example', `https://${'i'.repeat(93)}`],
    ],
    ACCESS_TOKEN_SECONDS: ['60', 'x'],
    BCRYPT_COST: ['9', '16', '4', 'twelve', '-12'],
    THROTTLE_PAIR_FAILURES: ['0', '-1', '1000000001', '5.0', 'unlimited'],
    THROTTLE_EMAIL_FAILURES: ['0'],
    THROTTLE_CLIENT_FAILURES: ['0'],
    THROTTLE_NETWORK_FAILURES: ['0'],
    SECOND_FACTOR: ['yes', 'ON', 'true', '1'],
    // The issuer is localhost.
    PASSKEY_RP_ID: ['example.com', 'host', 'localhos', 'ocalhost', 'LOCALHOST', 'localhost:8443'],
    SECOND_FACTOR_ROLES: [
      ...['*,admin', 'admin,*', '*,*', 'admin*', 'admin,,x', 'admin,', ',admin', ',', ' , '],
      'admin\neditor',
      ...['r'.repeat(51), `admin,${'r'.repeat(51)}`],
    ],
    PASSWORD_ENGINE: ['Lanes', 'wasm', 'bcrypt'],
    LOGIN_TIME_MS: ['499', '5001', '1s'],
    MAX_SESSIONS_PER_USER: ['0', '1001', '-1', 'unlimited'],
    SESSION_IDLE_MINUTES: ['4', '1441', '30m'],
    SESSION_MAX_DAYS: ['0', '91', '30d'],
    DRAIN_DELAY_MS: ['60001', '-1', '2s'],
    LOG_LEVEL: ['INFO', 'verbose'],
  }
  for (const [name, values] of Object.entries(REFUSED)) {
    test(`refuses a wrong ${name}, and names the variable`, () => {
      for (const value of values) {
        const problems = problemsOf({ [name]: value })
        assert.equal(problems.length, 1, `${value}: ${problems.join(' ')}`)
        assert.match(String(problems[0]), new RegExp(name), value)
      }
    })
  }

  test('the admin API needs a certificate of its own, also behind a TLS proxy', () => {
    const proxied = { ADMIN_PORT: '8444', TRUST_PROXY: '192.0.2.1' }
    const [problem = ''] = problemsOf(proxied)
    assert.match(problem, /^ADMIN_PORT needs TLS .* set ADMIN_TLS_CERT_FILE and/)
    const own = { ADMIN_TLS_CERT_FILE: 'a.pem', ADMIN_TLS_KEY_FILE: 'b.pem' }
    for (const safe of [TLS, own, { ADMIN_PORT: '0' }, { TRUST_PROXY: '' }]) {
      assert.deepEqual(problemsOf({ ...proxied, ...safe }), [])
    }
  })

  test('a role is in one list of the console only, and the lists need the port', () => {
    const both = { ADMIN_PORT: '8444', ADMIN_ROLES: 'admin,desk', HELPDESK_ROLES: 'desk' }
    assert.deepEqual(problemsOf(both), [
      'ADMIN_ROLES and HELPDESK_ROLES have a role in common: list each role once.',
    ])
    const { console, warnings } = loadConfig({ ADMIN_ROLES: 'admin' })
    assert.equal(console, null)
    assert.match(warnings.join(), /^ADMIN_ROLES and HELPDESK_ROLES have no effect: .* ADMIN_PORT/)
  })

  test('refuses an ACCESS_TOKEN_SECONDS out of range in tests, and any in production', () => {
    for (const value of ['0', '3601', '-1', '1.5']) {
      const [problem] = problemsOf({ NODE_ENV: 'test', ACCESS_TOKEN_SECONDS: value })
      assert.match(String(problem), /ACCESS_TOKEN_SECONDS .* 1 to 3600/)
    }
    const problems = problemsOf({ ...PRODUCTION, ACCESS_TOKEN_SECONDS: '60' })
    assert.deepEqual(problems, [
      'ACCESS_TOKEN_SECONDS is for tests: set NODE_ENV=test too, or remove it.',
    ])
  })

  test('passkeys belong to the host of the issuer or a domain above it; the console shares them below it', () => {
    const rolesOf = { ADMIN_PORT: '8444', ADMIN_ROLES: 'admin' }
    for (const [issuer, wanted, admin, expected, atConsole] of [
      ['https://login.example.com', '', '', 'login.example.com', null],
      ['https://login.example.com:444/a', 'example.com', '', 'example.com', null],
      ['https://a.b.example.com', 'b.example.com', 'https://c.example.com', 'b.example.com', null],
      ['https://example.com', '', 'https://c.example.com:444', 'example.com', 'example.com'],
      [
        'https://a.example.com',
        'example.com',
        'https://c.example.com',
        'example.com',
        'example.com',
      ],
      ['https://a.example.com', 'example.com', 'https://notexample.com', 'example.com', null],
      ['https://a.example.com', '', 'https://c.example.com', 'a.example.com', null],
      ['https://a.example.com', '', 'https://10.0.0.1', 'a.example.com', null],
      ['https://login', '', '', 'login', null],
      ['https://192.0.2.7', '', 'https://c.example.com', null, null],
      ['https://[2001:db8::7]:444', '', '', null, null],
    ] as const) {
      const names = { JWT_ISSUER: issuer, PASSKEY_RP_ID: wanted, ADMIN_ORIGIN: admin }
      const { passkeyRpId, console } = loadConfig({ ...names, ...rolesOf })
      assert.deepEqual([passkeyRpId, console?.passkeyRpId], [expected, atConsole], issuer)
    }
    for (const [issuer, wanted] of [
      ['https://login.example.com', 'com'],
      ['https://login.example.com', 'ogin.example.com'],
      ['https://login.example.com', 'other.example.com'],
      ['https://login.example.com', '.example.com'],
      ['https://192.0.2.7', '192.0.2.7'],
      ['https://192.0.2.7', '0.2.7'],
    ] as const) {
      const [problem] = problemsOf({ JWT_ISSUER: issuer, PASSKEY_RP_ID: wanted })
      assert.match(
        String(problem),
        /^PASSKEY_RP_ID must be the host of JWT_ISSUER, or a domain above/,
      )
    }
  })

  test('says how to write SECOND_FACTOR_ROLES', () => {
    assert.deepEqual(problemsOf({ SECOND_FACTOR_ROLES: '*,admin' }), [
      'SECOND_FACTOR_ROLES takes roles of 1 to 50 characters such as admin,editor, or * alone for every role; not "*,admin".',
    ])
  })

  test('reports every problem at once, in one message with a line for each', () => {
    const env = Object.fromEntries(
      Object.entries(REFUSED)
        .filter(([name]) => !name.endsWith('TLS_KEY_FILE'))
        .map(([name, values]) => [name, String(values[0])]),
    )
    const problems = problemsOf(env)
    assert.equal(problems.length, Object.keys(env).length)
    for (const name of Object.keys(env))
      assert.match(problems.join('\n'), new RegExp(`\\b${name}\\b`))
    const { message } = new ConfigError(problems)
    assert.equal(message.split('\n').length, problems.length + 1)
  })

  describe('in production', () => {
    const SAFE: [string, Record<string, string>][] = [
      ['a proxy in front', {}],
      ['a certificate', { TRUST_PROXY: '', ...TLS }],
      ['both', TLS],
      ['https origins', { CORS_ORIGINS: 'https://a.example,https://b.example:444' }],
      ['second factors for some roles', { SECOND_FACTOR_ROLES: 'admin,editor' }],
      ['second factors for every role', { SECOND_FACTOR: 'on', SECOND_FACTOR_ROLES: '*' }],
      ['no second factors', { SECOND_FACTOR: 'off' }],
    ]
    for (const [name, env] of SAFE) {
      test(`starts with ${name}`, () => {
        const { nodeEnv, warnings } = loadConfig({ ...PRODUCTION, ...env })
        assert.deepEqual([nodeEnv, warnings], ['production', []])
      })
    }

    test('the console demands a second factor of its roles', () => {
      const env = { ...PRODUCTION, ...TLS, ADMIN_PORT: '8444', SECOND_FACTOR_ROLES: 'editor' }
      const { console, secondFactorRoles } = loadConfig({
        ...{ ...env, ADMIN_ROLES: 'admin', HELPDESK_ROLES: 'desk' },
      })
      assert.deepEqual(console?.demandingRoles, ['editor', 'admin', 'desk'])
      assert.deepEqual(secondFactorRoles, ['editor'])
    })

    const UNSAFE: [string, Record<string, string>, RegExp][] = [
      ['neither certificate nor proxy', { TRUST_PROXY: '' }, /TLS_CERT_FILE.*TRUST_PROXY/],
      ['no file with signing keys', { SIGNING_KEYS_FILE: '' }, /SIGNING_KEYS_FILE/],
      ['no issuer', { JWT_ISSUER: '' }, /JWT_ISSUER/],
      ['an http issuer', { JWT_ISSUER: 'http://localhost:8443' }, /JWT_ISSUER must be a URL/],
      ['an http origin', { CORS_ORIGINS: 'https://a.example,http://b.example' }, /http:\/\/b\.ex/],
      ['an origin of another scheme', { CORS_ORIGINS: 'ws://a.example' }, /https:\/\/ origins/],
      ['an http address to return to', { RETURN_TO_ORIGINS: 'http://b.example' }, /RETURN_TO_ORIG/],
      ['a code for an http address', { CODE_CALLBACKS: 'http://localhost/in' }, /CODE_CALLBACKS/],
      ['a log without logins', { LOG_LEVEL: 'error' }, /LOG_LEVEL must be info/],
      ['a log without successes', { LOG_LEVEL: 'warn' }, /LOG_LEVEL must be info/],
      [
        'a second factor that is demanded and cannot be set up',
        { SECOND_FACTOR: 'off', SECOND_FACTOR_ROLES: '*' },
        /^In production SECOND_FACTOR_ROLES needs SECOND_FACTOR=on: .* Set it to on, or remove/,
      ],
      [
        'a console without second factors',
        { ...TLS, ADMIN_PORT: '8444', HELPDESK_ROLES: 'desk', SECOND_FACTOR: 'off' },
        /^In production the console .* needs SECOND_FACTOR=on/,
      ],
      ['an http console', { ADMIN_ORIGIN: 'http://localhost:8444' }, /^ADMIN_ORIGIN must be an/],
      ['a low cost', { BCRYPT_COST: '9' }, /BCRYPT_COST .* 10 to 15/],
    ]
    for (const [name, env, expected] of UNSAFE) {
      test(`refuses ${name}`, () => {
        const problems = problemsOf({ ...PRODUCTION, ...env })
        assert.equal(problems.length, 1)
        assert.match(String(problems[0]), expected)
      })
    }
  })

  test('warns of misspelt variables and of those that begin like ours, and of nothing else', () => {
    const env = { THROTTLE_PAIR_FAILURE: '3', PATH: '/bin', THROTTLE_EMAIL_FAILURES: '20' }
    assert.deepEqual(loadConfig({ ...env, BCRYPT_ROUNDS: '12' }).warnings, [
      'THROTTLE_PAIR_FAILURE is not a variable of this service and has no effect. Did you mean THROTTLE_PAIR_FAILURES?',
      'BCRYPT_ROUNDS is not a variable of this service and has no effect.',
    ])
  })

  test('warns of passwords that cross a network without TLS', () => {
    const plain = { TRUST_PROXY: '192.0.2.1', HOST: '0.0.0.0' }
    assert.match(loadConfig(plain).warnings.join(), /^With HOST=0\.0\.0\.0 .* unencrypted/)
    for (const safe of [{ HOST: '127.0.0.1' }, { HOST: '::1' }, { TRUST_PROXY: '' }, TLS]) {
      assert.deepEqual(loadConfig({ ...plain, ...safe }).warnings, [])
    }
  })

  test('warns of http origins, whose pages cannot use the cookie', () => {
    const { warnings } = loadConfig({
      CORS_ORIGINS: 'https://a.example,http://localhost:3000',
      RETURN_TO_ORIGINS: 'http://a.example, http://localhost:3000',
    })
    const reason =
      'browsers take http:// for another site and do not send the session cookie from there. Use https:// (docs/integrating.md).'
    assert.deepEqual(warnings, [
      `CORS_ORIGINS has http://localhost:3000: ${reason}`,
      `RETURN_TO_ORIGINS has http://a.example: ${reason}`,
      `RETURN_TO_ORIGINS has http://localhost:3000: ${reason}`,
    ])
  })

  test('every part of the result is frozen', () => {
    const config = loadConfig({ TRUST_PROXY: '::1', CORS_ORIGINS: 'https://a.example', TLS_X: '' })
    assert.ok(Object.isFrozen(config))
    for (const [name, value] of Object.entries(config)) assert.ok(Object.isFrozen(value), name)
  })
})

describe('in production the connection to PostgreSQL', () => {
  const judge = (DATABASE_URL: string) => {
    const env = { ...PRODUCTION, DATABASE_URL }
    const problems = problemsOf(env)
    return problems.length > 0 ? problems : loadConfig(env).warnings
  }

  for (const url of [
    ...['', '?sslmode=prefer', '?sslmode=allow', '?ssl=true', '?sslmode='].map(
      query => `postgres://u:s3cret@db/login${query}`,
    ),
    'postgres://u:s3cret@localhost,db1:5432,[fd00::1]/x',
    'postgres://u:s3cret@localhost,db1,db2/x?sslmode=allow',
  ]) {
    test(`is refused if a host is another machine: ${url}`, () => {
      const [problem = '', ...others] = judge(url)
      assert.deepEqual(others, [])
      assert.match(problem, /^In production a database on another machine needs TLS: /)
      assert.match(problem, /sslmode=verify-full .*DATABASE_URL.*sslmode=disable/)
      assert.doesNotMatch(problem, /s3cret/)
    })
  }

  for (const [url, ...expected] of [
    ['localhost:5432,127.0.0.1,[::1]:5433/x'],
    ['db1:5432,db2:5432/x?sslmode=verify-full'],
    ...['db', 'localhost,db1,db2'].map(hosts => [
      `${hosts}/x?sslmode=disable`,
      'The connection to the database is not encrypted (sslmode=disable).',
    ]),
    [
      'db/x?sslmode=no-verify',
      'The connection to the database does not verify the server: set sslmode=verify-full, and sslrootcert=FILE for a CA of your own.',
    ],
  ]) {
    test(`is taken with ${expected.length} warnings: ${url}`, () => {
      assert.deepEqual(judge(`postgres://u@${url}`), expected)
    })
  }
})

describe('an address of several hosts', () => {
  for (const [url, described] of [
    ['postgres://a:5432,b:5433/login'],
    [
      'postgres://ann:p,w%40@a,b/login?target_session_attrs=read-write',
      'postgres://ann:***@a,b/login',
    ],
    [
      'postgresql://ann:x:y@[::1]:5432,[fd00::2]/login',
      'postgresql://ann:***@[::1]:5432,[fd00::2]/login',
    ],
    ['postgres://ann@a,b:1'],
  ] as const) {
    test(`is accepted, and described without its password: ${url}`, () => {
      const { database } = loadConfig({ DATABASE_URL: url })
      assert.equal(describeDatabase(database), `PostgreSQL ${described ?? url}`)
    })
  }
})

describe('DATABASE_URL is refused, without its password in the message', () => {
  const SEVERAL = /must name several hosts before the name/
  for (const [url, problem] of [
    ['mysql://u:s3cret@db/x', /must look like/],
    ['postgres//u:s3cret@db', /must look like/],
    ['u:s3cret@db', /must look like/],
    ['postgres://ann:s3cret@a:5432,b:none/login', /must look like .*host1:5432,host2:5432/],
    ['postgres://ann:s3cret@a,,b/login', /must look like/],
    ['postgres://ann:s3cret@a,:5432/login', /must look like/],
    ['postgres:///login?host=a,b&password=s3cret', SEVERAL],
    ['postgres://a:1/login?port=1,2&password=s3cret', SEVERAL],
    ['postgres://ann:s3cret@a/x?target_session_attrs=any', /session_attrs must be read-write/],
    ['postgres://ann:s3cret@a,b/x?target_session_attrs=standby', /must be read-write/],
  ] as const) {
    test(url, () => {
      const [found = '', ...others] = problemsOf({ DATABASE_URL: url })
      assert.match(found, problem)
      assert.match(found, /DATABASE_URL/)
      assert.doesNotMatch(found, /s3cret/)
      assert.deepEqual(others, [])
    })
  }
})

// The driver warns of modes that its next version will read in another way. Such modes are cases here.
mock.method(process, 'emitWarning', () => {})

/** Addresses after `postgres://`, some with PGHOST or PGSSLMODE in the environment. */
const CASES: Record<Encryption, (string | [address: string, env: Record<string, string>])[]> = {
  local: [
    ...['u@localhost/login', 'u@127.0.0.1/login', 'u@127.1.2.3/login?sslmode=prefer'],
    ...['u@[::1]:5432/login', '/login', '%2Fvar%2Frun%2Fpostgresql/login'],
    ...['/login?host=/var/run/postgresql', 'db/login?host=127.0.0.1'],
    ['/login', { PGHOST: '/run/postgresql' }],
  ],
  unstated: [
    ...['db/login', '[fd00::1]/login', '127.example.com/login', 'localhost.example.com/login'],
    ...['%zz/login', 'localhost/login?host=db', 'localhost/login?host=127.0.0.1&host=db'],
    ...['db/login?sslmode=', 'db/login?sslmode=prefer', 'db/login?sslmode=Require'],
    ...['db/login?sslmode=verify-full&sslmode=prefer', 'db/login?ssl=0', 'db/login?ssl=true'],
    'db/login?sslmode=no-verify&uselibpqcompat=true',
    ['/login', { PGHOST: 'db' }],
    ['db/login?ssl=0', { PGSSLMODE: 'verify-full' }],
    ['db/login', { PGSSLMODE: ' require' }],
    ['db/login?sslmode=prefer', { PGSSLMODE: 'verify-full' }],
  ],
  verified: [
    ...['db/login?sslmode=verify-full', 'db/login?sslmode=verify-ca', 'db/login?sslmode=require'],
    ...['db/login?ssl=0&sslmode=require', 'db/login?sslmode=disable&sslmode=verify-full'],
    ['db/login', { PGSSLMODE: 'verify-full' }],
    ['db/login?sslmode=', { PGSSLMODE: 'require' }],
  ],
  unverified: [
    ...['db/login?sslmode=no-verify', 'db/login?sslmode=require&uselibpqcompat=true'],
    ['db/login', { PGSSLMODE: 'no-verify' }],
  ],
  plain: [
    'db/login?sslmode=disable',
    ['db/login', { PGSSLMODE: 'disable' }],
    ['db/login?sslmode=disable', { PGSSLMODE: 'verify-full' }],
  ],
}

describe('how a connection to PostgreSQL is encrypted', () => {
  const cases = Object.entries(CASES).flatMap(([expected, cases]) =>
    cases.map(it => [expected, ...(typeof it === 'string' ? ([it, {}] as const) : it)] as const),
  )
  for (const [expected, address, env] of cases) {
    const url = `postgres://${address}`
    test(`${expected}: ${url} ${JSON.stringify(env)}`, () => {
      assert.equal(decideEncryption(url, env), expected)
      if (expected !== 'unstated') assert.equal(encryptionByDriver(url, env), expected)
    })
  }
})

/** What the driver itself decides, read from a client that has not connected. */
function encryptionByDriver(connectionString: string, env: Record<string, string>): Encryption {
  const { PGHOST = '', PGSSLMODE = '' } = process.env
  Object.assign(process.env, { PGHOST: '', PGSSLMODE: '' }, env)
  try {
    const { host, ssl }: { host: string; ssl?: unknown } = new pg.Client({ connectionString })
    const isLocal = /^(\/|localhost|127\.[\d.]+$|::1$)/i.test(host)
    if (isLocal) return 'local'
    if (!ssl) return 'plain'
    const isUnverified =
      typeof ssl === 'object' && 'rejectUnauthorized' in ssl && ssl.rejectUnauthorized === false
    return isUnverified ? 'unverified' : 'verified'
  } finally {
    Object.assign(process.env, { PGHOST, PGSSLMODE })
  }
}

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

for (const name of `BCRYPT_ROUNDS THROTTLE_MAX jwt_secret JWT_EXPIRES_IN ADMIN_TOKENS_FILE ADMIN_API_PORT OPS_ADDRESS
    SESSION_SECRET BRAND_TITLE CORS_ALLOWED_ORIGINS TLS_CERT TRUST_X_FORWARDED_FOR AUDIT_RETENTION`.split(
  /\s+/,
)) {
  test(`${name} begins like a variable of this service, and gives a warning`, () => {
    const warning = `${name} is not a variable of this service and has no effect.`
    assert.deepEqual(warningsFor(name), [warning])
  })
}

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
    ADMIN_SERVICE_HOST ADMIN_SERVICE_PORT_HTTPS OPS_PORT_9443_TCP OPS_PORT_9443_TCP_ADDR SESSION_MANAGER
    PASSWORD_STORE_DIR ACCESS_TOKEN MAX_MEMORY CODE_VERSION LOGIN_IMAGE DATA_VOLUME HOST_IP JWT BRAND
    TEST_DATABASE_URL POST HOSTS PORTS SIGNAL_FILE TERM_PROGRAM OTEL_EXPORTER_OTLP_ENDPOINT JAVA_HOME GOPATH VIRTUAL_ENV
  `
  assert.deepEqual(warningsFor(...ordinary.trim().split(/\s+/)), [])
  assert.deepEqual(warnOfUnknown({ SESSION_CACHE_PORT: 'tcp://10.0.0.9:6379' }), [])
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
