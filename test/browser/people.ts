// The people and the history that the pictures of the console show, at a moment that stands still.
import assert from 'node:assert/strict'
import type { Actor } from '../../src/domain/audit.ts'
import { setRole, type startConsole } from '../support/console.ts'
import { PASSWORD } from '../support/service.ts'

type Console = Awaited<ReturnType<typeof startConsole>>

const FIREFOX = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0'
const CHROME = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0.0.0 Safari/537.36'
const SAFARI = 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Version/17.0 Safari/604.1'

/** Email, name, role, the time of being added and of the last login. */
const PEOPLE = [
  ['adaeze.nwosu', 'Adaeze Nwosu', 'editor', '2028-03-15T10:00', null],
  ['ann.lee', 'Ann Lee', 'user', '2028-06-02T08:10', '2030-01-31T08:02'],
  ['ben.carter', 'Ben Carter', 'user', '2028-06-02T08:12', '2029-11-12T16:40'],
  ['chiara.moretti', 'Chiara Moretti', 'user', '2029-02-11T12:30', '2030-01-30T17:26'],
  ['dana.reyes', 'Dana Reyes', 'help desk', '2028-01-10T09:00', null],
  ['jonas.weber', 'Jonas Weber', 'editor', '2028-09-04T15:21', '2030-01-28T09:14'],
  ['layla.haddad', 'ليلى حداد', 'user', '2029-05-02T09:11', '2030-01-29T11:31'],
  [
    'maximiliana.konstantinopoulou-vandenberghe@research-and-development.example.com',
    'Maximiliana Konstantinopoulou-Vandenberghe',
    'regional coordinator',
    '2028-02-20T13:00',
    '2030-01-24T10:03',
  ],
  ['miriam.okonkwo', 'Miriam Okafor', 'user', '2029-05-02T09:30', null],
  ['oliver.brandt', 'Oliver Brandt', 'user', '2029-01-15T10:05', '2030-01-19T15:47'],
  ['priya.nair', 'Priya Nair', 'user', '2030-01-31T11:04', null],
  ['sam.ito', 'Sam Ito', 'admin', '2028-01-10T08:55', null],
] as const

const ROOT: Actor = { kind: 'user', name: 'root', host: 'login1' }
const BACK_OFFICE: Actor = { kind: 'token', name: 'back-office', host: '192.0.2.15' }

/** Adds them, stops the clock, and returns the ids by the first part of their emails. */
export async function addPeople(service: Console, owner: { after: (end: () => void) => void }) {
  const { users } = service.store
  const ids: Record<string, string> = {}
  const idOf = (name: string) => ids[name] ?? assert.fail(name)
  const emailOf = (name: string) => (name.includes('@') ? name : `${name}@example.com`)
  const moveTo = (time: string) => service.advance(Date.parse(`${time}Z`) - +service.now())

  async function logIn(name: string, time: string, agent = FIREFOX, ip = '203.0.113.60') {
    moveTo(time)
    const headers = { 'User-Agent': agent }
    const body = { email: emailOf(name), password: PASSWORD }
    const { status, text } = await service.call({ headers, body })
    assert.equal(status, 200, text)
    await service.database.rows(`update sessions set ip = '${ip}' where ip = '127.0.0.1'`)
  }
  async function fail(name: string, time: string, times: number, from: string) {
    moveTo(time)
    for (let i = 0; i < times; i++) await service.login(emailOf(name), 'wrong', from)
  }

  for (const [name, shown, role, added, lastLogin] of PEOPLE) {
    const [key = ''] = name.split('@')
    moveTo(added)
    ids[key] = await service.addUser(emailOf(name), { name: shown })
    if (role !== 'user') await setRole(service, emailOf(name), role)
    if (lastLogin) await logIn(name, lastLogin)
  }
  /** Of the person at this time. */
  const by = (actor: Actor | string, time: string) => {
    const person = { kind: 'person', id: idOf('dana.reyes'), host: '198.51.100.40' } as const
    const maker = typeof actor === 'string' ? { ...person, name: emailOf(actor) } : actor
    return { at: new Date(`${time}Z`), by: maker }
  }
  const miriam = idOf('miriam.okonkwo')
  await users.deactivate(miriam, by('tomas.vidal', '2029-08-03T17:44'))
  await users.activate(miriam, by('dana.reyes', '2029-09-19T08:15'))
  await users.set(miriam, { name: 'Miriam Okonkwo' }, by(BACK_OFFICE, '2029-12-02T10:20'))
  await users.set(miriam, { role: 'editor' }, by(BACK_OFFICE, '2030-01-14T09:05'))
  await users.deactivate(idOf('ben.carter'), by('tomas.vidal', '2029-12-03T16:00'))
  await users.set(idOf('adaeze.nwosu'), { role: 'admin' }, by(BACK_OFFICE, '2029-06-21T15:30'))
  await users.set(idOf('adaeze.nwosu'), { role: 'editor' }, by(BACK_OFFICE, '2029-06-21T15:32'))
  const until = new Date('2030-02-04T09:00Z')
  await users.lock(idOf('oliver.brandt'), until, by(ROOT, '2030-01-30T17:20'))
  await logIn('adaeze.nwosu', '2030-01-27T09:40', CHROME, '198.51.100.23')
  await logIn('adaeze.nwosu', '2030-01-30T08:11', FIREFOX, '198.51.100.23')
  await logIn('miriam.okonkwo', '2030-01-31T08:05', FIREFOX, '203.0.113.7')
  await fail('miriam.okonkwo', '2030-01-31T13:30', 3, '127.9.0.9')
  const given = by('tomas.vidal', '2030-01-31T11:05')
  const { passwordHash = '' } = (await users.findById(idOf('priya.nair'))) ?? {}
  const end = new Date('2030-02-03T11:05Z')
  await users.setPassword(idOf('priya.nair'), passwordHash, given, end)
  await logIn('adaeze.nwosu', '2030-01-31T13:58', SAFARI, '2001:db8:4f:12:81c6:aa0e:5d31:9b2e')
  for (const last of [1, 2, 3, 4]) {
    await fail('miriam.okonkwo', '2030-01-31T14:17', 5, `127.9.0.${last}`)
  }
  // The first one that is refused.
  await fail('miriam.okonkwo', '2030-01-31T14:17', 1, '127.9.0.5')
  moveTo('2030-01-31T14:21')
  service.stopClock(owner)
  return ids
}
