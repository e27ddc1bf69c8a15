// A guided tour: starts a temporary server, shows its answers and their log lines, and leaves its page open.
import { createHmac, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import bcrypt from 'bcrypt'
import { commandActor } from '../src/cli/terminal.ts'
import { loadConfig } from '../src/config/config.ts'
import { createLog } from '../src/log/log.ts'
import { toBase32 } from '../src/login/totp.ts'
import { serve } from '../src/service/serve.ts'
import { openStore } from '../src/storage/open-store.ts'

const AUTH = '/api/v1/auth'
const PASSWORD = 'correct horse battery staple'

type Step = {
  title: string
  method?: string
  /** By default `/login`. */
  path?: string
  body?: unknown
  /** How often to send it; the last answer is shown. */
  times?: number
}

const login = (email: string, password: string) => ({ body: { email, password } })

/** What an authenticator app holds, and the code that it shows now or so many steps of 30 seconds later. */
const secret = randomBytes(20)
function codeOf(later: number): string {
  const counter = Buffer.alloc(8)
  counter.writeUInt32BE(Math.floor(Date.now() / 30_000) + later, 4)
  const mac = createHmac('sha1', secret).update(counter).digest()
  const number = mac.readUInt32BE((mac[19] ?? 0) & 15) & 0x7fffffff
  return String(number).slice(-6).padStart(6, '0')
}
const ann = { email: 'ann@example.com', password: PASSWORD }

const STEPS: Step[] = [
  { title: 'The right password', ...login('kate@example.com', PASSWORD) },
  { title: 'A field is missing', body: { email: 'kate@example.com' } },
  { title: 'A wrong password', ...login('kate@example.com', 'wrong') },
  { title: 'An unknown email: exactly the same answer', ...login('unknown@example.com', 'wrong') },
  {
    title: 'More guesses: after five failures the email is blocked for this client',
    ...login('kate@example.com', 'guess'),
    times: 5,
  },
  { title: 'Now even the right password is answered 429', ...login('kate@example.com', PASSWORD) },
  {
    title: 'Ann sets up a second factor: her app has the secret, and shows a code for it',
    path: '/second-factor',
    body: { ...ann, secret: toBase32(secret), newOtp: codeOf(0) },
  },
  { title: 'Now the password alone gets the answer of a wrong one', body: ann },
  { title: 'With the next code', body: { ...ann, otp: codeOf(1) } },
  { title: 'Another method', method: 'GET' },
]

const dataDir = await mkdtemp(join(tmpdir(), 'login-demo-'))
const config = loadConfig({
  PORT: '0',
  OPS_PORT: '0',
  DATA_DIR: dataDir,
  BCRYPT_COST: '10',
  DRAIN_DELAY_MS: '0',
})
const lines: string[] = []
const log = createLog('info', { write: (line: string) => lines.push(line) })
const clock = () => new Date()
const service = await serve(config, log, clock)
const ca = await readFile(join(dataDir, 'development-cert.pem'))

try {
  for (const name of ['Kate', 'Ben', 'Ann']) await addUser(name)
  print(`The service listens on ${service.url} with three users, such as kate@example.com.\n`)
  const bodies: string[] = []
  for (const [index, step] of STEPS.entries()) {
    print(`\n${index + 1}. ${step.title}\n`)
    bodies.push(await show(step))
  }
  const isSame = bodies[2] === bodies[3] && bodies[2] === bodies[7]
  print(`\nAnswers 3, 4 and 8 are the same to the byte: ${isSame ? 'yes' : 'NO'}\n`)
  process.exitCode = isSame ? 0 : 1
  print(`\nThe page: ${service.url}/login, for ben@example.com with the password ${PASSWORD}\n`)
  const interrupted = once(process, 'SIGINT')
  print('Ctrl-C ends the demo.\n')
  await interrupted
} finally {
  await service.stop('end of the tour')
  await rm(dataDir, { recursive: true })
}

async function addUser(name: string): Promise<void> {
  const store = await openStore(config.database)
  await store.users.insert(
    {
      id: randomUUID(),
      email: `${name.toLowerCase()}@example.com`,
      passwordHash: await bcrypt.hash(PASSWORD, config.bcryptCost),
      name,
      role: 'user',
    },
    { at: clock(), by: commandActor() },
  )
  await store.close()
}

async function show({ method = 'POST', path = '/login', body, times = 1 }: Step): Promise<string> {
  const url = service.url + AUTH + path
  const payload = body === undefined ? '' : JSON.stringify(body)
  const data = payload && ` \\\n    -H 'Content-Type: application/json' -d '${payload}'`
  print(`  $ curl -ki${method === 'POST' ? '' : ` -X ${method}`} ${url}${data}\n`)
  if (times > 1) print(`  (sent ${times} times)\n`)

  lines.length = 0
  let answer = await send(method, url, payload)
  for (let i = 1; i < times; i++) answer = await send(method, url, payload)
  print(`  ${answer.head.join('\n  ')}\n  ${shortened(answer.text)}\n`)
  for (const line of lines) print(`  log: ${shortened(line.trim())}\n`)
  return answer.text
}

type Answer = { head: string[]; text: string }

function send(method: string, url: string, payload: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = payload ? { 'Content-Type': 'application/json' } : {}
    const outgoing = request(url, { method, headers, ca }, async incoming => {
      const chunks: Buffer[] = []
      for await (const chunk of incoming) chunks.push(chunk)
      const shown = ['retry-after', 'allow'].flatMap(name =>
        incoming.headers[name] ? [`${name}: ${incoming.headers[name]}`] : [],
      )
      resolve({
        head: [`HTTP/1.1 ${incoming.statusCode} ${incoming.statusMessage}`, ...shown],
        text: Buffer.concat(chunks).toString(),
      })
    })
    outgoing.once('error', reject).end(payload)
  })
}

/** Shortens tokens, which are long and not readable, and the ten recovery codes. */
function shortened(text: string): string {
  return text
    .replace(/eyJ[\w-]{20,}\.[\w-]+\.[\w-]+/g, token => `${token.slice(0, 24)}…`)
    .replace(/("recoveryCodes":\["[^"]+").*?\]/, '$1, …]')
}

function print(text: string): void {
  process.stdout.write(text)
}
