import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { clientAddress, trustProxies } from './client-address.ts'

const PROXIES = trustProxies(['10.0.0.0/8', '192.0.2.1', '2001:db8:1::/48', '::1'])

describe('a proxy', () => {
  const TRUSTED = [
    ...['10.0.0.0', '10.255.255.255', '192.0.2.1', '2001:db8:1::', '2001:db8:1:ffff::1', '::1'],
    ...['::ffff:10.1.2.3', '::FFFF:0a01:0203', '0:0:0:0:0:0:0:1', '2001:db8:1::1%eth0'],
  ]
  const UNTRUSTED = [
    ...['9.255.255.255', '11.0.0.0', '192.0.2.2', '127.0.0.1', '2001:db8:2::', '::2', '::'],
    ...['::ffff:11.0.0.1', '', '10', '10.1', '10.0.0.1.2', '10.0.0.256', '010.0.0.1'],
    ...['10.0.0.1 ', '10.0.0.1:80', '[::1]', 'localhost', '0x0a.0.0.1', '167772161', '10.0.0.0/8'],
  ]
  for (const [expected, addresses] of [[true, TRUSTED] as const, [false, UNTRUSTED] as const]) {
    for (const address of addresses) {
      test(`is ${expected ? 'trusted' : 'not trusted'}: ${JSON.stringify(address)}`, () => {
        assert.equal(PROXIES.isTrusted(address), expected)
        assert.equal(trustProxies([]).isTrusted(address), false)
      })
    }
  }
})

describe('the client', () => {
  test('is found without reading the entries to the left of it', () => {
    const asked: string[] = []
    const isTrusted = (address: string) => {
      asked.push(address)
      return address === '10.0.0.1'
    }
    const forwardedFor = `${'::,'.repeat(5_000)}203.0.113.9, 10.0.0.1`
    assert.equal(clientAddress('10.0.0.1', forwardedFor, { isTrusted }), '203.0.113.9')
    assert.deepEqual(asked, ['10.0.0.1', '10.0.0.1', '203.0.113.9'])
  })

  test('is at most the 20th entry from the right', () => {
    const isTrusted = (address: string) => address.startsWith('10.')
    const hops = Array.from({ length: 30 }, (_, index) => `10.0.0.${index}`)
    const forwardedFor = ['203.0.113.9', ...hops].join(', ')
    assert.equal(clientAddress('10.0.0.1', forwardedFor, { isTrusted }), '10.0.0.10')
  })

  test('is unknown if the entry is longer than any address', () => {
    const entry = `2001:db8:2::1%${'x'.repeat(70)}`
    assert.equal(clientAddress('10.0.0.1', entry, PROXIES), null)
    assert.equal(clientAddress('10.0.0.1', entry.slice(0, 80), PROXIES), '2001:db8:2::1')
  })

  const CLIENTS: [peer: string, forwarded: string | undefined, string | null, why: string][] = [
    ['203.0.113.9', undefined, '203.0.113.9', 'a direct peer'],
    ['::ffff:203.0.113.9', undefined, '203.0.113.9', 'an IPv4 peer on an IPv6 socket'],
    ['2001:DB8:2:0:0:0:0:1', undefined, '2001:db8:2::1', 'an address in another spelling'],
    ['fe80::1%eth0', undefined, 'fe80::1', 'a peer with a zone'],
    ['10.0.0.1', '203.0.113.9', '203.0.113.9', 'one proxy'],
    ['::ffff:10.0.0.1', '203.0.113.9', '203.0.113.9', 'one proxy on an IPv6 socket'],
    ['10.0.0.1', '203.0.113.9, 10.0.0.2', '203.0.113.9', 'two proxies'],
    ['10.0.0.1', '203.0.113.9,10.0.0.2 , ::1', '203.0.113.9', 'three proxies, with other spaces'],
    ['10.0.0.1', '10.0.0.7, 203.0.113.9', '203.0.113.9', 'a forged proxy to the left'],
    ['10.0.0.1', '203.0.113.9:1234', '203.0.113.9', 'a port'],
    ['10.0.0.1', '[2001:db8:2::1]', '2001:db8:2::1', 'brackets'],
    ['10.0.0.1', '[2001:db8:2::1]:443', '2001:db8:2::1', 'brackets and a port'],
    ['10.0.0.1', '203.0.113.9, [2001:db8:1::5]:443', '203.0.113.9', 'a proxy with a port'],
    ['10.0.0.1', '2001:db8:2::1', '2001:db8:2::1', 'IPv6 without brackets'],
    ['10.0.0.1', '::ffff:203.0.113.9', '203.0.113.9', 'IPv4-mapped IPv6'],
    ['10.0.0.1', '[::ffff:203.0.113.9]:1', '203.0.113.9', 'the same with a port'],
    ['64:ff9b::203.0.113.9', undefined, '203.0.113.9', 'an IPv4 client behind a NAT64'],
    ['10.0.0.1', '64:ff9b::cb00:7109', '203.0.113.9', 'the same behind a proxy'],
    ['64:ff9b::10.0.0.1', '203.0.113.9', '64:ff9b::a00:1', 'a private address is no proxy there'],
    ['64:ff9b:1::203.0.113.9', undefined, '64:ff9b:1::cb00:7109', 'another prefix'],
    ['10.0.0.1', 'fe80::1%eth0', 'fe80::1', 'a zone'],
    ['10.0.0.1', '10.0.0.9', '10.0.0.9', 'a client within the trusted network'],
    ['10.0.0.1', '10.0.0.9, 10.0.0.2', '10.0.0.9', 'trusted hops only: the left-most'],
    ['10.0.0.1', undefined, null, 'no header'],
    ['10.0.0.1', '', null, 'an empty header'],
    ['10.0.0.1', ' , ', null, 'a header of separators'],
    ['10.0.0.1', 'unknown', null, 'the word "unknown"'],
    ['10.0.0.1', '203.0.113.9, garbage', null, 'garbage where the client should be'],
    ['10.0.0.1', '203.0.113.9,', null, 'an empty entry where the client should be'],
    ['10.0.0.1', 'unknown, 10.0.0.2', null, 'an inner proxy that reports "unknown"'],
    ['10.0.0.1', ', 10.0.0.2', null, 'an inner proxy that reports nothing'],
    ['10.0.0.1', '203.0.113', null, 'an address of three parts'],
    ['10.0.0.1', '203.0.113.009', null, 'an address with leading zeros'],
    ['10.0.0.1', '3405803785', null, 'an address as one number'],
    ['10.0.0.1', '[203.0.113.9', null, 'half a bracket'],
    ['10.0.0.1', 'for=203.0.113.9', null, 'the syntax of another header'],
    ['10.0.0.1', '203.0.113.9\u0000', null, 'a control character'],
    ['', '203.0.113.9', null, 'a peer that has disconnected'],
  ]
  for (const [peer, forwardedFor, client, why] of CLIENTS) {
    test(`is ${client ?? 'unknown'} for ${why}`, () => {
      assert.equal(clientAddress(peer, forwardedFor, PROXIES), client)
    })
  }

  const address = fc.oneof(fc.ipV4(), fc.ipV6())
  const hops = fc.array(fc.oneof(address, fc.constant('10.0.0.1')))
  const joined = hops.map(it => it.join(', '))
  const forAny = (check: (address: string, header: string) => void) =>
    fc.assert(fc.property(address, fc.oneof(fc.string(), joined), check))

  test('is never changed by the header of an untrusted peer', () => {
    forAny((peer, forwardedFor) => {
      fc.pre(!PROXIES.isTrusted(peer))
      const client = clientAddress(peer, forwardedFor, PROXIES)
      assert.notEqual(client, null)
      assert.equal(client, clientAddress(peer, undefined, PROXIES))
    })
  })

  test('is never changed by the entries to the left of it', () => {
    forAny((client, forged) => {
      fc.pre(!PROXIES.isTrusted(client))
      const found = clientAddress('10.0.0.1', `${forged}, ${client}, 10.0.0.2`, PROXIES)
      assert.equal(found, clientAddress(client, undefined, PROXIES))
    })
  })

  test('is a canonical address, or unknown', () => {
    forAny((peer, forwardedFor) => {
      const client = clientAddress(peer, forwardedFor, PROXIES)
      if (client === null) return
      assert.ok(client.length <= 45)
      assert.equal(clientAddress(client, client, PROXIES), client)
    })
  })
})
