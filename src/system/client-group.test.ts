import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  clientGroup,
  clientNetwork,
  networkAddress,
  normalAddress,
  toCountedClient,
  turnNetwork,
} from './client-group.ts'

describe('the group of a client', () => {
  const SAME: [one: string, other: string][] = [
    ['203.0.113.9', '203.0.113.9'],
    ['2001:db8::1', '2001:db8::2'],
    ['2001:db8::', '2001:db8:0:0:ffff:ffff:ffff:ffff'],
  ]
  for (const [one, other] of SAME) {
    test(`is the same for ${one} and ${other}`, () => {
      assert.equal(clientGroup(one), clientGroup(other))
    })
  }

  const DIFFERENT: [one: string, other: string][] = [
    ['203.0.113.9', '203.0.113.10'],
    ['2001:db8:0:0::', '2001:db8:0:1::'],
    ['::1', '1::'],
    ['2001:db8::', '2a01:db8::'],
    ['0.0.0.1', '::1'],
  ]
  for (const [one, other] of DIFFERENT) {
    test(`differs between ${one} and ${other}`, () => {
      assert.notEqual(clientGroup(one), clientGroup(other))
    })
  }

  test('the network of an IPv6 address has 48 bits; an IPv4 address has none', () => {
    assert.equal(clientNetwork('2001:db8:1::1'), clientNetwork('2001:db8:1:ffff::'))
    assert.notEqual(clientNetwork('2001:db8:1::1'), clientNetwork('2001:db8:2::1'))
    assert.equal(clientNetwork('203.0.113.9'), null)
    assert.equal(clientNetwork('::ffff:203.0.113.9'), null)
  })

  for (const [address, network] of [
    ['203.0.113.9', '203.0.113.0'],
    ['::ffff:203.0.113.9', '203.0.113.0'],
    ['2001:db8:1:2:3::4', '2001:db8:1::'],
    ['unknown', ''],
  ] as const) {
    test(`the address of the network of ${address} is "${network}"`, () =>
      assert.equal(networkAddress(address), network))
  }

  test('is not known for a text that is no address', () => {
    for (const text of ['', 'unknown', '203.0.113', '203.0.113.256', '2001:db8::g']) {
      assert.equal(toCountedClient(text), null, text)
    }
  })

  test('is that of the IPv4 address for IPv4-mapped IPv6', () => {
    for (const peer of ['::ffff:203.0.113.9', '::ffff:cb00:7109']) {
      const client = normalAddress(peer) ?? ''
      assert.equal(clientGroup(client), clientGroup('203.0.113.9'))
    }
  })
})

test('the network that takes turns has 48 bits of an IPv6 address, and 24 of an IPv4 address', () => {
  const networkOf = (address: string) => {
    const client = toCountedClient(address)
    assert.ok(client)
    return turnNetwork(client)
  }
  assert.equal(networkOf('2001:db8:1::1'), clientNetwork('2001:db8:1:ffff::'))
  assert.equal(networkOf('203.0.113.9'), '203.0.113.0/24')
  assert.equal(networkOf('::ffff:203.0.113.10'), '203.0.113.0/24')
})
