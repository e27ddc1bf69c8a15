// The console: what each of its people may do, and to which people.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Operation, operation } from '../../src/admin/operation.ts'
import { changeNow } from '../../src/admin/operations/deps.ts'
import { OPERATIONS } from '../../src/admin/operations.ts'
import { parseSecret } from '../../src/login/totp.ts'
import { changeAt } from '../storage/fixtures.ts'
import { createAuthenticator, newUserWithApp } from '../support/authenticator.ts'
import { createCli } from '../support/cli.ts'
import {
  type Console,
  errorIn,
  inProduction,
  PEOPLE,
  type Person,
  type Staff,
  setRole,
  startConsole,
} from '../support/console.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { own } from '../support/own.ts'
import { until } from '../support/process.ts'
import { type Answer, createAddresses, PASSWORD, UNLIMITED } from '../support/service.ts'
import { noticeIn, textIn } from '../support/visitor.ts'

type Id = keyof typeof OPERATIONS

/**
 * What is answered, to an administrator, the help desk, another role, without a session, and to an administrator without
 * a second factor in production: to each about a user, a person of the help desk, an administrator and oneself.
 * `+`: it is done, or shown. `x`: 403. `l`: it leads to the login. `-`: there is no such address.
 */
const READING = '++++ ++++ xxxx llll llll'
const HELPING = '+++x +xxx xxxx llll llll'
const CHANGING = '+++x xxxx xxxx llll llll'
/** It concerns no person that there is. */
const ADDING = '++++ xxxx xxxx llll llll'
const NOWHERE = '---- ---- ---- ---- ----'
const TABLE: Record<Id, string> = {
  ...{ listUsers: READING, getUser: READING, listSessions: READING, listAudit: READING },
  ...{ setPassword: HELPING, unlockUser: HELPING, endSessions: HELPING, endSession: HELPING },
  ...{ changeUser: CHANGING, deleteUser: CHANGING, resetSecondFactor: CHANGING },
  ...{ activateUser: CHANGING, deactivateUser: CHANGING, lockUser: CHANGING },
  addUser: ADDING,
  ...{ getUserData: NOWHERE, getThrottle: NOWHERE, clearThrottle: NOWHERE },
  ...{ addToken: NOWHERE, listTokens: NOWHERE, revokeToken: NOWHERE },
}
/** Where an operation that changes nothing has its page. */
const PAGES: Partial<Record<Id, (target: Person) => string>> = {
  listUsers: () => PEOPLE,
  listAudit: ({ email }) => `/console/history?target=${email}`,
}
const ROLES_OF_TARGETS = ['user', 'help desk', 'admin', null]

function letterOf({ status, headers: { location = '' }, text }: Answer): string {
  if (status === 303) return location.startsWith('/login?') ? 'l' : '+'
  return { 200: '+', 401: '-', 403: 'x', 404: '-' }[status] ?? `${status} ${text}`
}

/** The person at the console with the token of its pages, and what is done before each request. */
type Actor = { staff: Staff; csrf: string; prepare?: () => Promise<unknown> }

/** What is answered to an actor about each target, by the page and by the form. */
async function answersTo(
  service: Console,
  id: Id,
  { staff, csrf, prepare }: Actor,
): Promise<string> {
  const block: Operation = OPERATIONS[id]
  const letters: string[] = []
  for (const role of ROLES_OF_TARGETS) {
    const target = role === null ? staff : await service.newPerson(role)
    const isAlive = id !== 'activateUser' || role === null
    await service.database.rows(`update users set failed_login_attempts = 3,
      is_active = ${isAlive} where id = '${target.id}'`)
    await fillSessions(service.database, target.id, 1, service.now(), { tokensEach: 0 })
    const session = await service.sessionOf(target)
    const { email } = target
    const [, byDefault = ''] = block.command?.split(' ') ?? []
    const path = (block.form?.path ?? byDefault).replace(':session', session)
    const isAdding = id === 'addUser'
    const fields = {
      ...{ csrf, seen: await service.seenOf(target) },
      ...(isAdding ? { email: `new-${email}` } : { email }),
      ...{ name: 'Changed', role: isAdding ? 'user' : (role ?? ''), valid: '24h', until: '2h' },
      generate: 'on',
    }
    const before = (await service.changesBy(staff)).length
    const ask = async (request: Promise<Answer>) => letterOf(await request)
    const ofPerson = `${PEOPLE}/${target.id}`
    const isForm = block.for === null || !block.request?.startsWith('GET ')
    const shown = PAGES[id]?.(target) ?? ofPerson
    const formPath = isAdding ? PEOPLE : `${ofPerson}/${path}`
    await prepare?.()
    const got = await ask(staff.get(isForm ? (isAdding ? `${PEOPLE}/new` : formPath) : shown))
    await prepare?.()
    const posted = isForm ? await ask(staff.sendForm(formPath, fields)) : got
    assert.equal(posted, got, `${id} of ${role}`)
    const isDone = isForm && posted === '+'
    assert.equal((await service.changesBy(staff)).length - before, isDone ? 1 : 0, id)
    letters.push(posted)
  }
  return letters.join('')
}

for (const engine of ENGINES_BY_RUN) {
  describe(`people at the console on ${engine}`, async () => {
    const service = await own(startConsole(engine, UNLIMITED))
    const production = await own(
      startConsole(engine, {
        ...UNLIMITED,
        ...(await inProduction()),
        SECOND_FACTOR_ROLES: 'editor',
      }),
    )
    const newAddress = createAddresses()
    const actorOf = async (role: string): Promise<Actor> => {
      const staff = await service.newStaff(role)
      return { staff, csrf: await staff.csrf() }
    }
    const withoutSession = async (): Promise<Actor> => ({
      staff: { ...(await service.newPerson('admin')), ...service.visitor() },
      csrf: '',
    })
    /** The session was opened before the user became an administrator. */
    async function withoutFactor(): Promise<Actor> {
      const staff = await production.newStaff('user')
      const csrf = await staff.csrf()
      await setRole(production, staff.email, 'admin')
      const { database } = production
      const prepare = () =>
        database.rows(`update sessions set ended_at = null where user_id = '${staff.id}'`)
      return { staff, csrf, prepare }
    }
    const actors = await Promise.all([
      ...['admin', 'help desk', 'editor'].map(actorOf),
      withoutSession(),
    ])
    const inProductionOnly = await withoutFactor()

    test('each operation has an entry in the table', () => {
      assert.deepEqual(Object.keys(TABLE).toSorted(), Object.keys(OPERATIONS).toSorted())
    })

    for (const [id, expected] of Object.entries(TABLE) as [Id, string][]) {
      test(`${id}: ${expected}`, async () => {
        const answers: string[] = []
        for (const actor of actors) answers.push(await answersTo(service, id, actor))
        answers.push(await answersTo(production, id, inProductionOnly))
        assert.equal(answers.join(' '), expected)
      })
    }

    /** Names what the page of the person offers. */
    const offered = ({ text }: Answer, { id }: Pick<Person, 'id'>) =>
      [...text.matchAll(new RegExp(`(?:href|action)="${PEOPLE}/${id}/([a-z/-]+)"`, 'g'))].map(
        ([, path]) => path,
      )

    test('a page offers what the role may do to the person, and says why it offers nothing', async () => {
      const [admin, helper] = [await service.newStaff('admin'), await service.newStaff('help desk')]
      const all = ['temporary', 'details', 'lock', 'deactivate', 'delete']
      const others = 'Only administrators may change a person with this role.'
      const oneself = 'You cannot change yourself here: ask another administrator.'
      for (const [staff, target, paths, reason] of [
        [admin, await service.newPerson(), all, null],
        [admin, await service.newPerson('owner'), all, null],
        [admin, admin, [], oneself],
        [helper, await service.newPerson(), ['temporary'], null],
        [helper, await service.newPerson('admin'), [], others],
        [helper, await service.newPerson('help desk'), [], others],
        [helper, helper, [], oneself],
      ] as const) {
        const page = await staff.get(`${PEOPLE}/${target.id}`)
        assert.deepEqual(offered(page, target), paths)
        assert.equal(page.text.includes(String(reason)), reason !== null)
      }
      assert.match((await admin.get(PEOPLE)).text, /href="\/console\/people\/new"/)
      assert.doesNotMatch((await helper.get(PEOPLE)).text, /people\/new/)
    })

    test('the help desk ends waits, but no lock of an administrator', async () => {
      const throttled = await own(startConsole(engine))
      const helper = await throttled.newStaff('help desk')
      const { id, email } = await throttled.newPerson()
      const { users } = throttled.store
      const path = `${PEOPLE}/${id}`
      for (let i = 0; i < 5; i++) await throttled.login(email, 'wrong')
      const waiting = await helper.get(path)
      assert.match(textIn(waiting, 'verdict') ?? '', /can log in, except from 1 client that waits/)
      assert.deepEqual(offered(waiting, { id }), ['unlock', 'temporary'])
      assert.equal(noticeIn(await helper.submit(waiting, `${path}/unlock`)), 'Unlocked.')
      assert.equal((await throttled.login(email, PASSWORD)).status, 200)

      const at = throttled.now()
      assert.ok(await users.lock(id, new Date(at.getTime() + 3_600_000), changeAt(at)))
      const locked = await helper.get(path)
      assert.match(textIn(locked, 'verdict') ?? '', /locked by an administrator/)
      assert.deepEqual(offered(locked, { id }), ['temporary'])
      const seen = await throttled.seenOf({ id })
      const refused = await helper.post(`${path}/unlock`, { csrf: await helper.csrf(), seen })
      assert.equal(refused.status, 403)
      assert.match(refused.text, /Only administrators may do this to this person\./)
      assert.ok((await users.findById(id))?.lockedUntil)
    })

    test('the help desk gives no temporary password to a user that could set up a factor with it', async () => {
      const helper = await production.newPerson('help desk')
      const { email, app } = await newUserWithApp(production, newAddress, helper.email)
      const visitor = production.visitor()
      await visitor.post('/login', { email, password: PASSWORD, otp: app.code() })
      const giveTo = async (target: Person) => {
        const page = await visitor.get(`${PEOPLE}/${target.id}`)
        const action = `${PEOPLE}/${target.id}/temporary`
        if (offered(page, target).includes('temporary')) return visitor.submit(page, action)
        const fields = { csrf: await visitor.csrf(), seen: await production.seenOf(target) }
        return visitor.post(action, fields)
      }
      const editor = await production.newPerson('editor')
      assert.equal((await giveTo(editor)).status, 403)
      await newUserWithApp(production, newAddress, editor.email)
      // The hash that the login has replaced by one of a higher cost changes what was seen.
      const hashOf = async () => (await production.store.users.findById(editor.id))?.passwordHash
      await until(async () => (await hashOf())?.startsWith('$2b$10$') === true)
      assert.equal((await giveTo(editor)).status, 200)
      assert.equal((await giveTo(await production.newPerson())).status, 200)
    })

    test('a session ends only at the address of its own user', async () => {
      const [helper, admin, user] = [
        await service.newStaff('help desk'),
        await service.newStaff('admin'),
        await service.newPerson(),
      ]
      const session = await service.sessionOf(admin)
      const fields = { csrf: await helper.csrf(), seen: await service.seenOf(user) }
      const path = `${PEOPLE}/${user.id}/sessions/${session}/end`
      assert.equal((await helper.post(path, fields)).status, 404)
      assert.equal((await admin.get(PEOPLE)).status, 200)
      assert.deepEqual(await service.changesBy(helper), [])
    })

    test('the permission comes before the fields, and before the question whether the person exists', async () => {
      const helper = await service.newStaff('help desk')
      const csrf = await helper.csrf()
      for (const [target, path] of [
        [(await service.newPerson()).id, 'details'],
        [(await service.newPerson()).id, 'lock'],
        [crypto.randomUUID(), 'delete'],
        [(await service.newPerson('admin')).id, 'temporary'],
      ]) {
        const wrong = { csrf, email: 'wrong', until: 'wrong', valid: 'wrong', seen: 'wrong' }
        assert.equal((await helper.post(`${PEOPLE}/${target}/${path}`, wrong)).status, 403, path)
      }
      assert.equal((await helper.post(PEOPLE, { csrf })).status, 403)
      const nowhere = `${PEOPLE}/${crypto.randomUUID()}`
      assert.equal((await helper.get(nowhere)).status, 404)
      assert.equal((await helper.post(`${nowhere}/temporary`, { csrf })).status, 404)
    })

    test('a block that is added appears on the page of a person and works, without another file', async t => {
      const greetUser = operation(
        {
          command: 'users greet',
          request: 'POST /users/:user/greeting',
          summary: 'Greet a user',
          description: 'With a word.',
          for: 'helpdesk',
          fields: { word: { about: 'The word.', isRequired: true } },
        },
        async (deps, { named, word }) => {
          await deps.store.users.set(named, { name: word }, changeNow(deps))
          return {}
        },
      )
      Object.assign(OPERATIONS, { greetUser })
      t.after(() => Reflect.deleteProperty(OPERATIONS, 'greetUser'))
      const other = await own(startConsole(engine, UNLIMITED))
      const [helper, user] = [await other.newStaff('help desk'), await other.newPerson()]
      const path = `${PEOPLE}/${user.id}`
      const page = await helper.get(path)
      assert.deepEqual(offered(page, user), ['temporary', 'greet'])
      assert.equal(textIn(page, 'greetUser'), 'Greet a user')
      assert.match(page.text, /<p class="detail">With a word\.<\/p>/)
      const empty = await helper.submit(page, `${path}/greet`, { word: ' ' })
      assert.equal(errorIn(empty, 'greetUser-word'), 'Fill this in.')
      const done = await helper.submit(page, `${path}/greet`, { word: 'Hello' })
      assert.equal(noticeIn(done), 'Greet a user: done.')
      assert.match(done.text, /<h1><bdi>Hello<\/bdi>/)
      assert.deepEqual(await other.changesBy(helper), ['user.changed'])
    })

    test('in production, the first administrator sets password and second step up in one form', async t => {
      const cli = await own(createCli(production.database))
      const { DATA_DIR, DATABASE_URL } = cli.env
      const email = 'first@example.com'
      const added = await cli.run(
        ['users', 'add', email, '--name', 'Ann', '--role', 'admin', '--generate'],
        '',
        { ...production.env, DATA_DIR, DATABASE_URL },
      )
      assert.equal(added.code, 0, added.stderr)
      const visitor = production.visitor()
      const asked = await visitor.logIn(email, added.stdout.trim())
      assert.equal(asked.status, 403)
      const secret = /name="secret" value="([^"]*)"/.exec(asked.text)?.[1] ?? ''
      const app = createAuthenticator(production.now, parseSecret(secret) ?? undefined)
      production.stopClock(t)
      const set = { 'new-password': 'seven green boats at noon', 'new-otp': app.code() }
      const password = added.stdout.trim()
      const codes = await visitor.submit(asked, '/login/second-factor', {
        ...{ email, password, ...set },
      })
      assert.equal(codes.status, 200, noticeIn(codes))
      assert.equal([...codes.text.matchAll(/<li><code>/g)].length, 10)
      assert.match((await visitor.open('/login')).text, /<h1>People/)
      // It needs no notice that production demands two-step login.
      assert.doesNotMatch((await visitor.open('/')).text, /Production demands/)
    })
  })
}
