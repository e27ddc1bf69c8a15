import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { connect as connectTls, Server as TlsServer } from 'node:tls'
import { makeCertificate } from '../../../test/support/certificates.ts'
import { until } from '../../../test/support/process.ts'
import { trustProxies } from '../request/client-address.ts'
import type { ConnectionLimits } from './connection-limit.ts'
import { limitConnections } from './connections.ts'
import { unsentBytes } from './unread-answers.ts'
import type { DiscardLimits } from './unread-bodies.ts'

const PROXY = '127.0.0.99'
const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'
const HALF_A_BODY = 'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf'
const OTHER_HALF = ' body.'

const UNVERIFIED = { rejectUnauthorized: false }
const FOUR = { total: 4, perClient: 4 }
const LARGE = Buffer.alloc(32 * 1024 * 1024)

/**
 * A server that answers `GET /` and `GET /large` at once, `GET /slow` when the test decides, and `/early` without
 * reading the body.
 */
async function listen(server: Server, connections: ConnectionLimits, discarding?: DiscardLimits) {
  const limits = { connections, handshakes: { total: 2, perClient: 2 } }
  limitConnections(server, trustProxies([PROXY]), { ...limits, ...(discarding && { discarding }) })
  // On a busy machine, too, no connection is closed because it is idle.
  server.keepAliveTimeout = 60_000
  server.on('request', (request, response) => {
    if (request.url === '/early') return response.end('early')
    request.resume()
    if (request.url === '/slow') server.emit('slow', response)
    else request.once('end', () => response.end(request.url === '/large' ? LARGE : 'fast'))
  })
  await once(server.listen(0, '0.0.0.0'), 'listening')
  const { port } = server.address() as AddressInfo
  const sockets: Socket[] = []
  after(async () => {
    for (const socket of sockets) socket.destroy()
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  })
  async function open(localAddress: string, allowHalfOpen = false): Promise<Socket> {
    const socket = connect({ host: '127.0.0.1', port, localAddress, allowHalfOpen })
    // A reset is seen as a close.
    socket.on('error', () => {})
    sockets.push(socket)
    await once(socket, 'connect')
    return socket
  }
  return {
    open,
    /** A connection whose answer is not read, on both sides. */
    async openUnread(localAddress: string, secure = (socket: Socket) => socket) {
      const isTls = server instanceof TlsServer
      const admission = once(server, isTls ? 'secureConnection' : 'connection')
      const socket = secure((await open(localAddress)).pause()).on('error', () => {})
      socket.write(GET.replace('/', '/large'))
      const [served]: Socket[] = await admission
      assert.ok(served)
      await until(async () => unsentBytes(served) > 0)
      return { socket, served }
    },
    /** A connection with an unanswered request, and a function that answers it. */
    async openBusy(localAddress: string) {
      const socket = await open(localAddress)
      socket.write(GET.replace('/', '/slow'))
      const [response]: ServerResponse[] = await once(server, 'slow')
      const answer = (text: string | Buffer) => response?.end(text)
      const isAnswered = async () => {
        const received = once(socket, 'data')
        answer('late')
        return /late$/.test(String((await received)[0]))
      }
      return { socket, answer, isAnswered }
    },
    /** A connection with half a request, also one that a proxy forwards. */
    async openHalf(localAddress: string, forwardedFor = localAddress): Promise<Socket> {
      const socket = await open(localAddress)
      const arrival = once(server, 'request')
      socket.write(HALF_A_BODY.replace('Host', `X-Forwarded-For: ${forwardedFor}\r\nHost`))
      await arrival
      return socket
    },
    /** A connection after its first answer, or null if it was closed instead. */
    async openIdle(localAddress: string): Promise<Socket | null> {
      const socket = await open(localAddress)
      return (await isKept(socket)) ? socket : null
    },
  }
}

/** True if the server answers another request on this connection, or the rest of one. */
async function isKept(socket: Socket | null, request = GET): Promise<boolean> {
  if (!socket || socket.destroyed) return false
  socket.write(request)
  await Promise.race([once(socket, 'data'), once(socket, 'close')])
  return !socket.destroyed
}

describe('at the limit of connections', () => {
  test('idle connections of the client with the most are closed first, busy ones are kept', async () => {
    const server = await listen(createServer(), { total: 6, perClient: 4 })
    const bystander = await server.openIdle('127.0.0.3')
    const busy = await server.openBusy('127.0.0.2')
    const stalled = await server.openHalf('127.0.0.2')
    const [first, second] = [await server.openIdle('127.0.0.2'), await server.openIdle('127.0.0.2')]
    const other = await server.openIdle('127.0.0.3')
    assert.ok(bystander && first && second && other)

    const closings = [stalled, first, second].map(socket => once(socket, 'close'))
    // For each new client, the client with the most connections loses one.
    assert.ok(await server.openIdle('127.0.0.4'))
    await closings[0]
    assert.ok(await server.openIdle('127.0.0.5'))
    await closings[1]
    assert.ok(await isKept(bystander))
    assert.ok(await busy.isAnswered())
  })

  test('new clients are refused only while every connection is busy', async () => {
    const server = await listen(createServer(), { total: 3, perClient: 2 })
    const first = await server.openBusy('127.0.0.2')
    const second = await server.openBusy('127.0.0.2')
    const third = await server.openBusy('127.0.0.3')
    assert.equal(await server.openIdle('127.0.0.4'), null)
    assert.ok(await third.isAnswered())
    assert.ok(await server.openIdle('127.0.0.4'))
    for (const busy of [first, second]) assert.ok(await busy.isAnswered())
  })

  test('a connection whose answers are not read is closed like an idle one', async context => {
    context.mock.timers.enable({ apis: ['setInterval'] })
    const server = await listen(createServer(), { total: 3, perClient: 2 })
    const ofProxy = await server.openUnread(PROXY)
    const unread = await server.openUnread('127.0.0.2')
    const busy = await server.openBusy('127.0.0.2')
    assert.ok(await server.openIdle('127.0.0.3'))
    assert.ok(unread.served.destroyed && !ofProxy.served.destroyed)

    const others = [await server.openBusy('127.0.0.4'), await server.openBusy('127.0.0.5')]
    assert.ok(ofProxy.served.destroyed)
    assert.equal(await server.openIdle('127.0.0.6'), null)
    busy.socket.pause()
    busy.answer(LARGE)
    context.mock.timers.tick(1_000)
    assert.ok(await server.openIdle('127.0.0.6'))
    assert.ok(others.every(({ socket }) => !socket.destroyed))
  })

  test('a client at its own limit loses what it used least recently, and is refused if all are busy', async () => {
    const server = await listen(createServer(), { total: 6, perClient: 2 })
    const half = await server.openHalf('127.0.0.2')
    const idle = await server.openIdle('127.0.0.2')
    assert.ok(idle)
    const closings = [half, idle].map(socket => once(socket, 'close'))
    const busy = [await server.openBusy('127.0.0.2')]
    await closings[0]
    busy.push(await server.openBusy('127.0.0.2'))
    await closings[1]
    assert.equal(await server.openIdle('127.0.0.2'), null)
    for (const { isAnswered } of busy) assert.ok(await isAnswered())
    assert.ok(await server.openIdle('127.0.0.2'))
  })

  test('half-sent bodies behind a trusted proxy are closed as those of their client', async () => {
    const server = await listen(createServer(), { total: 7, perClient: 2 })
    const [attacker, honest] = ['203.0.113.1', '2001:db8::1']
    const half = await server.openHalf(PROXY, honest)
    const others = [await server.openIdle(PROXY), await server.openIdle('127.0.0.2')]
    const ofAttacker = []
    for (let i = 0; i < 3; i++) ofAttacker.push(await server.openHalf(PROXY, attacker))
    const [first, second, third] = ofAttacker
    assert.ok(first && second && third)
    const closing = once(second, 'close')
    assert.ok(first.closed || (await once(first, 'close')))
    // The total is reached: the client with the most loses the next one, not the proxy.
    for (let i = 0; i < 3; i++) others.push(await server.openIdle(PROXY))
    await closing
    for (const socket of others) assert.ok(await isKept(socket))
    for (const socket of [half, third]) assert.ok(await isKept(socket, OTHER_HALF))
  })

  test('a trusted proxy has no limit per client, and loses no connection', async () => {
    const server = await listen(createServer(), { total: 6, perClient: 2 })
    const ofProxy = []
    for (let i = 0; i < 4; i++) ofProxy.push(await server.openIdle(PROXY))
    const client = await server.openIdle('127.0.0.2')
    assert.ok(client && (await server.openIdle('127.0.0.3')))
    const closing = once(client, 'close')
    ofProxy.push(await server.openIdle(PROXY))
    await closing
    for (const socket of ofProxy) assert.ok(await isKept(socket))
  })
})

describe('a client that does not read its answer', () => {
  for (const what of ['TLS', 'plain HTTP']) {
    test(`over ${what} has 15 s to take some bytes, and 60 s to take all`, async context => {
      context.mock.timers.enable({ apis: ['setInterval'] })
      const isTls = what === 'TLS'
      const unlimited = isTls ? createTlsServer(await makeCertificate()) : createServer()
      const server = await listen(unlimited, FOUR)
      const secure = (socket: Socket) =>
        isTls ? connectTls({ socket, ...UNVERIFIED }).pause() : socket
      /** True if the connection is open after these checks, one per second. */
      const isOpenAfter = async (seconds: number, served: Socket) => {
        context.mock.timers.tick(seconds * 1_000)
        for (let i = 0; i < 3; i++) await setImmediate()
        return !served.destroyed
      }

      const { served: stalled } = await server.openUnread('127.0.0.2', secure)
      assert.ok(await isOpenAfter(15, stalled))
      // If the system took bytes meanwhile, the time began again.
      assert.ok(!(await isOpenAfter(15, stalled)) || !(await isOpenAfter(15, stalled)))

      const { socket, served: slow } = await server.openUnread('127.0.0.2', secure)
      for (let i = 0; i < 6; i++) {
        assert.ok(await isOpenAfter(10, slow))
        const before = unsentBytes(slow)
        while (unsentBytes(slow) === before) if (!socket.read()) await once(socket, 'readable')
      }
      assert.ok(!(await isOpenAfter(1, slow)))
    })
  }
})

describe('after an answer that did not need the body', () => {
  const HEAD = 'POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n'
  const NEVER = { bytes: 100_000_000, ms: 1_000_000 }
  const BYTES = { ...NEVER, bytes: 2_000_000 }
  const TIME = { ...NEVER, ms: 100 }
  const CASES: [name: string, headers: string, DiscardLimits, sent: number, read: number][] = [
    ['2 MB are read', 'Connection: close', BYTES, 10_000_000, 2_000_000],
    ['2 MB are read before another request', 'X: y', BYTES, 10_000_000, 2_000_000],
    ['it is read for a while', 'Connection: close', TIME, 0, 0],
    ['it is read for a while before another request', 'X: y', TIME, 0, 0],
    ['nothing is read if it has no clear end', 'Host: b\r\nConnection: close', NEVER, 0, 0],
  ]
  for (const [name, headers, limits, sentBytes, readBytes] of CASES) {
    test(`${name}, then the connection is closed`, async () => {
      const server = createServer()
      const { open } = await listen(server, FOUR, limits)
      const admission = once(server, 'connection')
      const socket = await open('127.0.0.2', true)
      const [served]: Socket[] = await admission
      assert.ok(served)
      const closing = once(served, 'close')
      socket.write(`${HEAD}${headers}\r\n\r\n`)
      assert.match(String((await once(socket, 'data'))[0]), /early$/)
      socket.write(Buffer.alloc(sentBytes))
      await closing
      const bodyBytes = served.bytesRead - HEAD.length
      assert.ok(bodyBytes > readBytes && bodyBytes < readBytes + 1_000_000, `${bodyBytes}`)
    })
  }
})

describe('at the limit of handshakes', () => {
  test('the oldest one of the client with the most is dropped; finished ones do not count', async () => {
    const server = await listen(createTlsServer(await makeCertificate()), FOUR)
    const shakeHands = async (localAddress: string) => {
      const socket = connectTls({ socket: await server.open(localAddress), ...UNVERIFIED })
      socket.on('error', () => {})
      await once(socket, 'secureConnect')
      return socket
    }
    const finished = []
    for (let i = 0; i < 3; i++) finished.push(await shakeHands('127.0.0.2'))
    const dropped = once(await server.open('127.0.0.2'), 'close')
    await server.open('127.0.0.2')
    assert.ok(await isKept(await shakeHands('127.0.0.3')))
    await dropped
    for (const socket of finished) assert.ok(await isKept(socket))
    // Beyond the limit, the client with the most connections loses the least recently used one.
    const [leastRecent, ...others] = finished
    assert.ok(leastRecent)
    const closing = once(leastRecent, 'close')
    assert.ok(await isKept(await shakeHands('127.0.0.5')))
    await closing
    for (const socket of others) assert.ok(await isKept(socket))
    // Aborted handshakes and closed connections are no longer counted.
    for (const socket of finished) socket.destroy()
    for (let i = 0; i < 10; i++) {
      const aborted = await server.open('127.0.0.4')
      aborted.destroy()
      const socket = await shakeHands('127.0.0.4')
      assert.ok(await isKept(socket))
      socket.destroy()
    }
  })
})
