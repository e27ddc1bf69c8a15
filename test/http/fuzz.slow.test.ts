// Random bodies and headers get only the documented failures; mutated requests over TLS, too. A failing one of these is
// saved in corpus/ and tried first in later runs.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { PUBLIC_FAILURES } from '../../src/http/answer/envelope.ts'
import { anyText, INHERITED } from '../support/any-text.ts'
import { createAuthenticator, SECOND_FACTOR } from '../support/authenticator.ts'
import { ENGINES } from '../support/engines.ts'
import { faultsIn, inParallel, own } from '../support/own.ts'
import { addPasskeys, createPasskey } from '../support/passkey.ts'
import { createDeployment, type Line } from '../support/process.ts'
import { casesOf, IS_FULL } from '../support/proof.ts'
import { createRandom } from '../support/random.ts'
import { createRawClient, outsideEnvelope } from '../support/raw-connection.ts'
import {
  type Answer,
  type Call,
  LOGIN,
  PASSWORD,
  startTestService,
  UNLIMITED,
} from '../support/service.ts'
import { AUTH } from '../support/session-client.ts'
import { createVisitor } from '../support/visitor.ts'
import { chunked, get, HOST, JSON_TYPE, lines, sized } from './hostile-cases.ts'

/** Nearly all requests are refused before the database is used; the random bodies try both engines. */
const CASES = Number(process.env.FUZZ_CASES ?? (IS_FULL ? 6_000 : 1_500))
/** Fixed by default, so that a new failure has its cause in a change. Another seed tries other cases. */
const SEED = Number(process.env.FUZZ_SEED ?? 1)
const PARALLEL = 16
/** On SIGUSR2, collects garbage before it prints the memory in use, so that only leaks show. */
const MEMORY_PROBE = `
  let probes = 0
  process.on('SIGUSR2', () => {
    gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    console.log(JSON.stringify({ event: 'memory.' + ++probes, ...process.memoryUsage() }))
  })`
const NODE_OPTIONS = `--expose-gc --import=data:text/javascript,${encodeURIComponent(MEMORY_PROBE)}`
const CORPUS = resolve(import.meta.dirname, 'corpus')

const login = (email: string, password: string, ...headers: string[]) =>
  sized(`{"email":"${email}","password":"${password}"}`, JSON_TYPE, ...headers)

const changeFactors = (body: string) => {
  const text = `{"email":"kate@example.com","password":"${PASSWORD}",${body}}`
  const headers = [HOST, JSON_TYPE, `Content-Length: ${Buffer.byteLength(text)}`]
  return lines(`POST ${SECOND_FACTOR} HTTP/1.1`, ...headers) + text
}

const ASKED = 'Access-Control-Request-Method'

const SEEDS = [
  login('kate@example.com', PASSWORD),
  login('kate@example.com', 'wrong', 'Origin: https://localhost:3000'),
  login('a@example.com', '\\ud800', 'Expect: 100-continue', 'Cookie: a=b; c=d'),
  sized(`{"email":"kate@example.com","password":"${PASSWORD}","otp":"123 456"}`, JSON_TYPE),
  changeFactors('"secret":null,"otp":"4kf2-9wpx-7m0c-q3hd-e8ts-z51r"'),
  changeFactors('"secret":"QZ4KM7TDWX2HRB5N3VGLCYEJ6UAFS7PO","newOtp":"123456"'),
  changeFactors('"recoveryCodes":true,"newPassword":"seven green boats at noon"'),
  chunked('1a\r\n{"email":"x","password":1}\r\n0\r\n\r\n'),
  get('/.well-known/jwks.json', 'X-Request-ID: 0b6f5c3e-0000-4000-8000-00000000abcd'),
  lines(`OPTIONS ${LOGIN} HTTP/1.1`, HOST, 'Origin: http://localhost', `${ASKED}: POST`),
  `${lines(`GET ${LOGIN}?a=%20b HTTP/1.0`, 'Authorization: Bearer x')}${get('/')}`,
].map(bytes => Buffer.from(bytes))

const TOKENS = [
  ...['\r\n', '\n', '\r', '\0', ' ', '\t', ':', ': ', '\r\n\r\n', '%', '%00', '%zz', '../', '?'],
  ...['#', '"', '{', '}', '[', '\\u0000', 'Content-Length: ', 'Transfer-Encoding: chunked\r\n'],
  ...['Host: b\r\n', 'Connection: close\r\n', 'Upgrade: h2c\r\n', 'Expect: x\r\n', 'HTTP/1.1'],
  ...['HTTP/0.9', 'CONNECT ', 'TRACE ', '-1', '99999999999999999999', '\u2028', '\uFEFF'],
  ...INHERITED,
].map(text => Buffer.from(text))

describe(`fuzzing with FUZZ_SEED=${SEED}`, () => {
  for (const engine of IS_FULL ? ENGINES : ENGINES.slice(0, 1)) {
    test(`${CASES} mutated requests all get answers in the envelope and leak no memory, on ${engine}`, async () => {
      const deployment = await own(createDeployment(engine, { ...UNLIMITED, NODE_OPTIONS }))
      await deployment.addUser('kate@example.com')
      const service = await deployment.start()
      const client = await createRawClient({ url: service.url, dataDir: deployment.dataDir })
      const next = createRandom(SEED)
      const random = (below: number) => Math.floor(next() * below)
      const kept = globSync('*.bin', { cwd: CORPUS }).map(name => readFileSync(join(CORPUS, name)))
      const failures: string[] = []
      let made = 0

      async function attempt(bytes: Buffer): Promise<void> {
        const problems = await client.send(bytes).then(
          answers => answers.map(it => (it.status >= 500 ? `${it.status}` : outsideEnvelope(it))),
          (error: Error) => [error.message],
        )
        const problem = problems.find(found => found !== null)
        if (problem === undefined) return
        const name = `${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}.bin`
        writeFileSync(join(CORPUS, name), bytes)
        failures.push(`${name}: ${problem}`)
      }

      async function attemptUntil(limit: number): Promise<void> {
        await inParallel(PARALLEL, async () => {
          while (made++ < limit && failures.length < 10) await attempt(mutate(random))
        })
        made = limit
      }

      for (const bytes of kept) await attempt(bytes)
      await attemptUntil(CASES / 2)
      service.kill('SIGUSR2')
      const warm = toMiB(await service.line('memory.1'))
      await attemptUntil(CASES)
      service.kill('SIGUSR2')
      const final = toMiB(await service.line('memory.2'))
      assert.deepEqual(failures, [])
      assert.deepEqual(faultsIn({ logged: service.lines }), [])
      assert.ok(final.live < 1.1 * warm.live, `${warm.live} MiB became ${final.live} MiB`)
      assert.ok(final.resident < 1.1 * warm.resident, `${warm.resident} became ${final.resident}`)
      assert.equal((await service.login('kate@example.com', PASSWORD)).status, 200)
      service.kill('SIGTERM')
      assert.deepEqual(await service.exit, { code: 0, signal: null })
    })
  }
})

function toMiB({ heapUsed, external, rss }: Line) {
  const MiB = (...bytes: unknown[]) =>
    Math.round(bytes.reduce((sum: number, value) => sum + Number(value), 0) / 2 ** 20)
  return { live: MiB(heapUsed, external), resident: MiB(rss) }
}

function mutate(random: (below: number) => number): Buffer {
  let bytes: Buffer = pick(SEEDS, random)
  for (let changes = 1 + random(4); changes > 0; changes--) {
    const at = random(bytes.length + 1)
    const until = Math.min(bytes.length, at + random(20))
    const [head, middle] = [bytes.subarray(0, at), bytes.subarray(at, until)]
    const tail = bytes.subarray(until)
    const other = pick(SEEDS, random)
    const changed: (() => Buffer[])[] = [
      () => [head, Buffer.from([random(256)]), tail],
      () => [head, pick(TOKENS, random), middle, tail],
      () => [head, pick(TOKENS, random), tail],
      () => [head, tail],
      () => [head, middle, middle, tail],
      () => [head, other.subarray(random(other.length))],
      () => [head, Buffer.alloc(random(3_000), pick(TOKENS, random)), tail],
      () => [head],
    ]
    bytes = Buffer.concat(pick(changed, random)())
  }
  return bytes
}

function pick<T>(list: T[], random: (below: number) => number): T {
  const item = list[random(list.length)]
  if (item === undefined) throw new Error('nothing to pick from')
  return item
}

const TYPE = { 'Content-Type': 'application/json' }

// A body with prototype keys is refused as a whole, so such values are left out.
const harmless = fc
  .jsonValue({ maxDepth: 2 })
  .filter(value => !/__proto__|constructor/.test(JSON.stringify(value)))
const someText = fc.oneof(anyText(), fc.constantFrom(...INHERITED))
const anything = fc.oneof(someText, harmless)
const queryName = fc.constantFrom(
  ...['done', 'lang', 'return_to', 'challenge', 'prompt', 'again', ...INHERITED],
)
const headerName = fc.constantFrom(
  ...['User-Agent', 'X-Request-ID', 'Origin', 'Cookie', 'Authorization', 'X-Forwarded-For'],
  ...['Accept', 'X-CSRF-Token', 'Accept-Version'],
)
const headerValue = fc
  .string({ unit: 'binary-ascii' })
  .map(text => text.replace(/[^\x20-\x7e]/g, ''))

const asBody = (body: string | Buffer): Call => ({ headers: TYPE, body })
const INVALID: [what: string, calls: fc.Arbitrary<Call>, statuses: number[]][] = [
  [
    'any JSON value as a body',
    fc.jsonValue({ maxDepth: 5 }).map(value => asBody(JSON.stringify(value))),
    [400, 401, 413],
  ],
  [
    'random bytes as a body',
    fc.uint8Array({ minLength: 1, maxLength: 300 }).map(bytes => asBody(Buffer.from(bytes))),
    [400],
  ],
  [
    'random header values before an invalid body',
    fc.dictionary(headerName, headerValue).map(it => ({ headers: { ...it, ...TYPE }, body: '{}' })),
    [400],
  ],
]

/** Some of the fields, each with what is made of its valid value. */
function someOf<T>(fields: Record<string, T>, make: (valid: T) => fc.Arbitrary<unknown>) {
  const made = Object.entries(fields).map(([name, valid]) => [name, make(valid)])
  return fc.record<Record<string, unknown>>(Object.fromEntries(made), { requiredKeys: [] })
}

const toBase64url = (text: string) => Buffer.from(text, 'base64').toString('base64url')
/** Of a passkey. */
const partOf = (valid: unknown) =>
  fc.oneof(fc.constant(valid), fc.base64String().map(toBase64url), anything)

for (const engine of ENGINES) {
  describe(`any body on ${engine}`, async () => {
    const service = await own(startTestService(engine, UNLIMITED))

    function assertInTable({ status, json, text }: Answer, statuses: number[]): void {
      assert.ok(statuses.includes(status), `${status} ${text}`)
      assert.equal(json.success, false)
      const known: Record<string, { status: number }> = PUBLIC_FAILURES
      assert.equal(known[json.error.code]?.status, status)
    }
    const check = (property: fc.IAsyncProperty<unknown>) =>
      fc.assert(property, { numRuns: casesOf(500) })

    // Hardly any of them reaches the database.
    for (const [what, calls, statuses] of engine === 'sqlite' || IS_FULL ? INVALID : []) {
      test(`${what}: ${statuses.join(', ')}`, () =>
        check(
          fc.asyncProperty(calls, async call => assertInTable(await service.call(call), statuses)),
        ))
    }

    test('any email and password are answered 401 if both are strings that are not empty, otherwise 400', () =>
      check(
        fc.asyncProperty(anything, anything, async (email, password) => {
          const answer = await service.call({ body: { email, password } })
          const isEmail = typeof email === 'string' && email.trim() !== ''
          const isPassword = typeof password === 'string' && password !== ''
          assertInTable(answer, isEmail && isPassword ? [401] : [400])
          if (isEmail && isPassword) return
          const fields = [...(isEmail ? [] : ['email']), ...(isPassword ? [] : ['password'])]
          assert.deepEqual(answer.json.error.fields, fields)
        }),
      ))

    const CREDENTIALS = { email: 'kate@example.com', password: PASSWORD }
    const VALID = {
      ...{ otp: '123456', newOtp: '123456', newPassword: 'seven green boats at noon' },
      ...{ secret: 'QZ4KM7TDWX2HRB5N3VGLCYEJ6UAFS7PO', recoveryCodes: true },
      ...{ passkey: createPasskey().get(''), newPasskey: createPasskey().create('') },
      remove: crypto.randomUUID(),
    }
    const factorFields = someOf(VALID, valid =>
      typeof valid === 'object'
        ? fc.oneof(someOf(valid, partOf), fc.constant(valid), anything)
        : fc.oneof(fc.constant(valid), fc.constant(null), anything),
    )
    const PROVED = [
      ...[{ path: LOGIN }, { path: SECOND_FACTOR }],
      { path: `${AUTH}/password`, rest: { currentPassword: PASSWORD } },
    ]
    test('any code, secret, new code and new password: 400 that names a field, or 401; nothing is changed', async () => {
      const email = 'secured@example.com'
      const id = await service.addUser(email)
      await addPasskeys(service.database, id, 1)
      const before = await service.store.users.findById(id)
      await check(
        fc.asyncProperty(
          fc.constantFrom(...PROVED),
          factorFields,
          async ({ path, rest = {} }, fields) => {
            const body = { ...CREDENTIALS, email, ...rest, ...fields }
            const answer = await service.call({ path, body })
            assertInTable(answer, [400, 401])
            if (answer.status === 400) {
              const named = answer.json.error.fields ?? []
              assert.ok(named.length > 0 && named.every(name => name in VALID), answer.text)
            }
          },
        ),
      )
      const after = await service.store.users.findById(id)
      assert.ok(after && after.failedLoginAttempts > 0 && after.failedSecondSteps > 0)
      assert.deepEqual({ ...after, failedLoginAttempts: 0, failedSecondSteps: 0 }, before)
      const { factors } = await service.store.secondFactors.list(id)
      assert.deepEqual(
        factors.map(({ kind }) => kind),
        ['passkey'],
      )
    })

    test('any secret and new code of a set-up: 400 that names them; only base32 with its code is taken', async () => {
      await service.addUser('setting-up@example.com')
      const app = createAuthenticator(service.now)
      const secrets = fc.oneof(
        anything,
        fc.constant(app.secret),
        fc.base64String({ maxLength: 120 }),
      )
      const newOtps = fc.oneof(anything, fc.nat(999_999).map(String))
      await check(
        fc.asyncProperty(secrets, newOtps, async (secret, newOtp) => {
          const body = { ...CREDENTIALS, email: 'setting-up@example.com', secret, newOtp }
          const answer = await service.call({ path: SECOND_FACTOR, body })
          assertInTable(answer, [400])
          for (const name of answer.json.error.fields ?? ['']) {
            assert.ok(name in VALID, answer.text)
          }
        }),
      )
    })

    test('any query of a page is answered 200 with and without a session, or 400', async () => {
      await service.addUser('kate@example.com')
      const visitors = [createVisitor(service), createVisitor(service)]
      await visitors[0]?.logIn('kate@example.com')
      const pages = fc.constantFrom('/', '/login', '/login/password')
      return check(
        fc.asyncProperty(pages, fc.dictionary(queryName, someText), async (path, query) => {
          const asked = `${path}?${new URLSearchParams(query)}`
          for (const visitor of visitors) {
            const { status, text } = await visitor.get(asked)
            assert.ok(
              status === 200 || (status === 400 && asked.length > 8_192),
              `${asked} ${text}`,
            )
          }
        }),
      )
    })

    test('none of these requests caused an error line, except the alarm of the account that was tried', () => {
      const alarms = ['account.alarm', 'account.password_known']
      const faults = faultsIn(service).filter(({ event }) => !alarms.includes(String(event)))
      assert.deepEqual(faults, [])
    })
  })
}
