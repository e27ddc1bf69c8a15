// This service and the alternatives that a team could choose, each in its own process with the same users.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import bcrypt from 'bcrypt'
import { post, type Target } from './connection.ts'
import { createPostgresDatabase, freePort } from './database.ts'
import { start, useRunFolder } from './processes.ts'
import { COST, loginRequest, PASSWORD } from './seed.ts'
import { deploy, untilAnswered } from './service.ts'

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
  stop: () => Promise<void>
}

type Peer = {
  name: string
  packages: string[]
  file: string
  path: string
  hasLimiter?: boolean
}

const PEERS: Peer[] = [
  {
    name: 'better-auth',
    packages: ['better-auth', 'bcrypt'],
    file: 'better-auth.ts',
    path: '/api/auth/sign-in/email',
    hasLimiter: true,
  },
  {
    name: 'Fastify',
    packages: ['fastify', '@fastify/jwt', 'bcrypt', 'pg'],
    file: 'fastify.ts',
    path: '/login',
  },
]

export async function startContestants(users: number): Promise<Contestant[]> {
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
    request: (email, password) => loginRequest(email, password),
    stop: deployment.remove,
  }
}

async function startPeer(peer: Peer, users: number, passwordHash: string): Promise<Contestant> {
  const env = {
    DATABASE_URL: await createPostgresDatabase(),
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
  return {
    name: peer.name,
    parts: peer.packages.map(withVersion).join(', '),
    transport: 'HTTP',
    target,
    protectedTarget: peer.hasLimiter ? await run({ RATE_LIMIT: 'on' }) : target,
    request: (email, password, address) =>
      post(
        peer.path,
        { email, password },
        peer.hasLimiter && address ? `X-Forwarded-For: ${address}\r\n` : '',
      ),
    async stop() {
      await Promise.all(processes.map(({ stop }) => stop()))
    },
  }
}

function withVersion(name: string): string {
  const file = join(import.meta.dirname, 'node_modules', name, 'package.json')
  const { version }: { version: string } = JSON.parse(readFileSync(file, 'utf8'))
  return `${name} ${version}`
}
