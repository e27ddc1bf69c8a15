// A service on a machine that has no IPv4 address. Run as a program, it expects to be in such a network.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createCli } from '../support/cli.ts'
import { freePort } from '../support/postgres-server.ts'
import { createDeployment, stop } from '../support/process.ts'

const FILE = fileURLToPath(import.meta.url)
const execute = promisify(execFile)
const EMAIL = 'kate@example.com'

/** Returns how it was done. */
export async function proveIpv6Only(): Promise<string> {
  const setUp = 'ip link set lo up && ip -4 address flush dev lo && exec "$@"'
  const asRoot = process.getuid?.() === 0 ? [] : ['--map-root-user']
  const isolated = [...asRoot, '--net', 'sh', '-c', setUp, 'sh']
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` }
  const isPermitted = await execute('unshare', [...isolated, 'true'], { env }).then(
    () => true,
    () => false,
  )
  if (isPermitted) await execute('unshare', [...isolated, process.execPath, FILE], { env })
  else await useService(await freePort())
  return isPermitted
    ? 'a network namespace without an IPv4 address'
    : 'the address ::1 of the machine, because no network namespace is permitted'
}

async function useService(opsPort: number): Promise<void> {
  const deployment = await createDeployment('sqlite', { HOST: '::1', OPS_HOST: '::1' })
  const cli = await createCli(deployment.database)
  try {
    await deployment.addUser(EMAIL)
    const service = await deployment.start({ OPS_PORT: String(opsPort) })
    const { port } = new URL(service.url)
    assert.equal(service.url, `https://[::1]:${port}`)
    await assert.rejects(once(connect(Number(port), '127.0.0.1'), 'connect'))
    assert.equal((await fetch(`http://[::1]:${opsPort}/readyz`)).status, 200)
    assert.equal((await service.login(EMAIL)).status, 200)
    for (let guess = 0; guess < 5; guess++) {
      assert.equal((await service.login(EMAIL, `guess ${guess}`)).status, 401)
    }
    assert.equal((await service.login(EMAIL)).status, 429)
    assert.equal((await service.line('login.throttled')).ip, '::1')
    const shown = await cli.runProcess(['users', 'show', EMAIL, '--client', '::1'])
    assert.match(shown.stdout, /waits until/)
    const { stdout } = await cli.runProcess(['doctor'], '', { HOST: '::1', PORT: port })
    assert.match(stdout, /running +ok +::1, port \d+ serves this certificate/)
    await stop(service)
  } finally {
    await cli.remove()
    await deployment.remove()
  }
}

if (process.argv[1] === FILE) await useService(9443)
