import assert from 'node:assert/strict'
import { test } from 'node:test'
import { generate } from 'selfsigned'
import { loadConfig } from '../../config/config.ts'
import { pageAddress } from './address.ts'

const FILES = { TLS_CERT_FILE: 'cert.pem', TLS_KEY_FILE: 'key.pem' }
const PROXY = { TRUST_PROXY: '10.0.0.1' }
const TENANT = { JWT_ISSUER: 'https://login.example.com/tenant' }
const LOCAL = ['localhost', '127.0.0.1']

const issuedBy = (host: string) => ({ ...FILES, JWT_ISSUER: `https://${host}` })

const CASES: [string, string[] | null, Record<string, string>, string | null, port?: number][] = [
  ['the standard port', ['a.com'], FILES, 'https://a.com/login', 443],
  ['the development certificate', LOCAL, {}, 'https://localhost:8443/login'],
  ['the same on all addresses', LOCAL, { HOST: '0.0.0.0' }, 'https://localhost:8443/login'],
  ['the same on another address', LOCAL, { HOST: '10.0.0.5' }, 'https://10.0.0.5:8443/login'],
  ['the same on an IPv6 address', LOCAL, { HOST: 'fd00::5' }, 'https://[fd00::5]:8443/login'],
  ['two names', ['a.example.com', 'b.example.com'], FILES, 'https://a.example.com:8443/login'],
  ['a wildcard and a name', ['*.a.com', 'a.com'], FILES, 'https://a.com:8443/login'],
  ['a wildcard for the issuer', ['*.a.com'], issuedBy('b.a.com'), 'https://b.a.com:8443/login'],
  ['a wildcard for others', ['*.a.com'], issuedBy('login.a.org'), null],
  ['an IPv4 address', ['192.0.2.7'], FILES, 'https://192.0.2.7:8443/login'],
  ['an IPv6 address', ['2001:db8::7'], FILES, 'https://[2001:db8::7]:8443/login'],
  ['no name at all', [], FILES, null],
  ['a proxy and an issuer', null, { ...PROXY, ...TENANT }, 'https://login.example.com/login'],
  ['a proxy and no issuer', null, PROXY, null],
]

for (const [name, names, env, expected, port = 8443] of CASES) {
  test(`with ${name} the address of the page is ${expected ?? 'unknown'}`, async () => {
    const tls = names && { cert: await certificateFor(names), key: '' }
    assert.equal(pageAddress(loadConfig(env), tls, port), expected)
  })
}

async function certificateFor(names: string[]): Promise<string> {
  const altNames = names.map(name =>
    /^[\d.]+$|:/.test(name) ? { type: 7 as const, ip: name } : { type: 2 as const, value: name },
  )
  const { cert } = await generate([{ name: 'commonName', value: 'unused.example.com' }], {
    keyType: 'ec',
    // Without extensions the library would add a name of its own.
    extensions: [
      { name: 'basicConstraints', cA: false },
      ...(names.length > 0 ? [{ name: 'subjectAltName' as const, altNames }] : []),
    ],
  })
  return cert
}
