// This service and the alternatives that a team could choose, each in its own process with the same users.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import bcrypt from 'bcrypt'
import { createTestDatabase } from '../test/support/engines.ts'
import { freePort } from '../test/support/postgres-server.ts'
import { LOGIN } from '../test/support/service.ts'
import { post, type Target } from './connection.ts'
import { start, useRunFolder } from './processes.ts'
import { COST, PASSWORD } from './seed.ts'
import { deploy, untilAnswered, usePostgres } from './service.ts'

export type Contestant = {
  name: string
  /** Its packages with their versions. */
  parts: string
  transport: 'HTTPS' | 'HTTP'
  target: Target
  /** The same with its rate limit on, if the limit would prevent the other measurements. */
  protectedTarget: Target
  /** The address is sent to contestants that read it from a proxy's header. */
  request: (email: string, password: string, address?: string) => Buffer
  /** The status of a success. All contestants answer 401 to a wrong password. */
  success: number
  stop: () => Promise<void>
}

type Peer = {
  name: string
  packages: string[]
  file: string
  path: string
  success: number
  more?: object
  hasLimiter?: boolean
}

const PEERS: Peer[] = [
  {
    name: 'better-auth',
    packages: ['better-auth', 'bcrypt'],
    file: 'better-auth.ts',
    path: '/api/auth/sign-in/email',
    success: 200,
    hasLimiter: true,
  },
  {
    name: 'Express',
    packages: ['express', 'bcryptjs', 'jsonwebtoken', 'pg'],
    file: 'express.ts',
    path: '/login',
    success: 200,
  },
  {
    name: 'Fastify',
    packages: ['fastify', '@fastify/jwt', 'bcrypt', 'pg'],
    file: 'fastify.ts',
    path: '/login',
    success: 200,
  },
  {
    name: 'Feathers',
    packages: ['@feathersjs/authentication-local', '@feathersjs/knex', 'bcryptjs', 'pg'],
    file: 'feathers.ts',
    path: '/authentication',
    success: 201,
    more: { strategy: 'local' },
  },
]

export async function startContestants(users: number): Promise<Contestant[]> {
  await usePostgres()
  const ours = (['sqlite', 'postgres'] as const).map(engine => startOurs(engine, users))
  const passwordHash = await bcrypt.hash(PASSWORD, COST)
  return Promise.all([...ours, ...PEERS.map(peer => startPeer(peer, users, passwordHash))])
}

async function startOurs(engine: 'sqlite' | 'postgres', users: number): Promise<Contestant> {
  const deployment = await deploy(engine, users)
  const { target } = await deployment.start()
  return {
    name: `this service, ${engine}`,
    parts: engine === 'sqlite' ? 'as “npm start” runs it' : 'the same with DATABASE_URL',
    transport: 'HTTPS',
    target,
    protectedTarget: target,
    request: (email, password) => post(LOGIN, { email, password }),
    success: 200,
    stop: deployment.remove,
  }
}

async function startPeer(peer: Peer, users: number, passwordHash: string): Promise<Contestant> {
  const { config, drop } = await createTestDatabase('postgres')
  const env = {
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
    DATABASE_FILE: join(useRunFolder(), `${peer.name}.db`),
    PASSWORD_HASH: passwordHash,
    USERS: String(users),
    NODE_ENV: 'production',
  }
  const file = join(import.meta.dirname, 'peers', peer.file)
  const processes: { stop: () => Promise<void> }[] = []
  async function run(more: Record<string, string>): Promise<Target> {
    const port = await freePort()
    const child = start([process.execPath, file], { ...env, ...more, PORT: String(port) })
    processes.push(child)
    await untilAnswered(`http://127.0.0.1:${port}/`, child)
    return { port, certificate: null }
  }
  const target = await run({ RATE_LIMIT: 'off' })
  const { path, more, success } = peer
  return {
    name: peer.name,
    parts: peer.packages.map(withVersion).join(', '),
    transport: 'HTTP',
    target,
    protectedTarget: peer.hasLimiter ? await run({ RATE_LIMIT: 'on' }) : target,
    request: (email, password, address) =>
      post(
        path,
        { ...more, email, password },
        peer.hasLimiter && address ? `X-Forwarded-For: ${address}\r\n` : '',
      ),
    success,
    async stop() {
      await Promise.all(processes.map(({ stop }) => stop()))
      await drop()
    },
  }
}

function withVersion(name: string): string {
  const file = join(import.meta.dirname, 'node_modules', name, 'package.json')
  const { version }: { version: string } = JSON.parse(readFileSync(file, 'utf8'))
  return `${name} ${version}`
}
