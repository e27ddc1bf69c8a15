import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  clientGroup,
  clientNetwork,
  networkAddress,
  normalAddress,
  toCountedClient,
  turnNetwork,
} from './client-group.ts'

test('an IPv4 address is a client, and a /64 network of IPv6', () => {
  for (const [one, other] of [
    ['203.0.113.9', '203.0.113.9'],
    ['2001:db8::1', '2001:db8::2'],
    ['2001:db8::', '2001:db8:0:0:ffff:ffff:ffff:ffff'],
    // IPv4-mapped IPv6 is IPv4.
    [normalAddress('::ffff:203.0.113.9'), '203.0.113.9'],
    [normalAddress('::ffff:cb00:7109'), '203.0.113.9'],
  ] as const) {
    assert.equal(clientGroup(one ?? ''), clientGroup(other), `${one} ${other}`)
  }
  for (const [one, other] of [
    ['203.0.113.9', '203.0.113.10'],
    ['2001:db8:0:0::', '2001:db8:0:1::'],
    ['::1', '1::'],
    ['2001:db8::', '2a01:db8::'],
    ['0.0.0.1', '::1'],
  ] as const) {
    assert.notEqual(clientGroup(one), clientGroup(other), `${one} ${other}`)
  }
  for (const text of ['', 'unknown', '203.0.113', '203.0.113.256', '2001:db8::g']) {
    assert.equal(toCountedClient(text), null, text)
  }
})

test('a network has 48 bits of an IPv6 address; one that takes turns, 24 of an IPv4 address too', () => {
  assert.equal(clientNetwork('2001:db8:1::1'), clientNetwork('2001:db8:1:ffff::'))
  assert.notEqual(clientNetwork('2001:db8:1::1'), clientNetwork('2001:db8:2::1'))
  assert.equal(clientNetwork('203.0.113.9'), null)
  assert.equal(clientNetwork('::ffff:203.0.113.9'), null)
  for (const [address, network, turns] of [
    ['203.0.113.9', '203.0.113.0', '203.0.113.0/24'],
    ['::ffff:203.0.113.9', '203.0.113.0', '203.0.113.0/24'],
    ['2001:db8:1:2:3::4', '2001:db8:1::', clientNetwork('2001:db8:1::')],
    ['unknown', '', null],
  ] as const) {
    assert.equal(networkAddress(address), network)
    const client = toCountedClient(address)
    assert.equal(client && turnNetwork(client), turns)
  }
})
