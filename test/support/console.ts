// A service with a console, people at it, and what they see.
import { join } from 'node:path'
import { ensureKeyFile } from '../../src/keys/key-file.ts'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { changeAt } from '../storage/fixtures.ts'
import { startAdminService } from './admin-service.ts'
import { writeCertificate } from './certificates.ts'
import { ownFolder } from './own.ts'
import type { Answer, Call, TestService } from './service.ts'
import { createVisitor, unescaped } from './visitor.ts'

export const ROLES = { ADMIN_ROLES: 'admin,owner', HELPDESK_ROLES: 'help desk' }
export const CONSOLE_COOKIE = '__Host-console'
export const PEOPLE = '/console/people'
export const MARKUP = `"'><img src=x onerror=alert(1)>&amp;`

const SAME = { 'Sec-Fetch-Site': 'same-origin' }

export type Console = Awaited<ReturnType<typeof startConsole>>
export type Person = { id: string; email: string }
export type Staff = Person & ReturnType<typeof createConsoleVisitor>

export async function startConsole(engine: EngineName, env: Record<string, string> = {}) {
  const service = await startAdminService(engine, { ...ROLES, ...env })
  const { users } = service.store
  /** A user with this role. */
  async function newPerson(role = 'user'): Promise<Person> {
    const email = await service.newUser()
    await setRole(service, email, role)
    const user = await users.findByEmail(email)
    return { email, id: user?.id ?? '' }
  }
  const visitor = (from?: string) => createConsoleVisitor(service.callConsole, from)
  return {
    ...service,
    ...{ newPerson, visitor },
    /** A person with this role, logged in at the console. */
    async newStaff(role: string, from?: string): Promise<Staff> {
      const [person, browser] = [await newPerson(role), visitor(from)]
      await browser.logIn(person.email)
      return { ...person, ...browser }
    },
    /** The value of `seen` for a form that is made now. */
    seenOf: async ({ id }: Pick<Person, 'id'>) =>
      (await users.findById(id))?.updatedAt.toISOString() ?? '',
    /** The oldest live session. */
    sessionOf: async ({ id }: Pick<Person, 'id'>) => {
      const page = { afterId: null, limit: 1 }
      const [session] = (await service.store.sessions.listLive(id, page, service.now())) ?? []
      return session?.id ?? ''
    },
    /** What the actor has changed, as actions. */
    changesBy: async ({ id }: Pick<Person, 'id'>) => {
      const rows = await service.database.rows(
        `select action from audit_events join audit_actors on event_id = id
          where user_id = '${id}' order by id`,
      )
      return rows.map(({ action }) => String(action)).filter(action => action !== 'users.read')
    },
  }
}

/** A browser at the console. */
export function createConsoleVisitor(call: (request: Call) => Promise<Answer>, from?: string) {
  const visitor = createVisitor({ call }, from)
  async function arrive(answer: Answer): Promise<Answer> {
    return [302, 303].includes(answer.status)
      ? arrive(await visitor.get(String(answer.headers.location)))
      : answer
  }
  return {
    ...visitor,
    /** Sends the form, and follows no redirect. */
    sendForm: (path: string, fields: object) => visitor.send('POST', path, SAME, fields),
    /** Follows all redirects. */
    open: async (path: string) => arrive(await visitor.get(path)),
    logIn: async (email: string, password?: string, path?: string) =>
      arrive(await visitor.logIn(email, password, path)),
    /** The token that every page of the session has. */
    csrf: async () => csrfIn(await visitor.get(PEOPLE)),
  }
}

export const csrfIn = ({ text }: Answer) => /name="csrf" value="([^"]*)"/.exec(text)?.[1] ?? ''

/** What a field of a form has, by the id of its element. */
export function valueIn({ text }: Answer, id: string): string | undefined {
  const [element] =
    new RegExp(`<(input|select) [^>]*id="${id}"[^>]*>.*?(?=<p|<input|$)`, 's').exec(text) ?? []
  const value = /<option value="([^"]*)" selected|^<input [^>]* value="([^"]*)"/s.exec(
    element ?? '',
  )
  return value ? unescaped(value[1] ?? value[2] ?? '') : undefined
}

/** What the page says at a field that was refused; empty if nothing. */
export const errorIn = ({ text }: Answer, id: string) =>
  unescaped(new RegExp(`<p class="error" id="${id}-error">(.*?)</p>`).exec(text)?.[1] ?? '')

/** The emails of the people that a list shows. */
export const listedIn = ({ text }: Answer) =>
  [...text.matchAll(/<br><span class="detail" dir="ltr">(.*?)<\/span>/g)].map(([, email = '']) =>
    unescaped(email.replaceAll('<wbr>', '')),
  )

export const passwordIn = ({ text }: Answer) =>
  /<code id="secret"[^>]*>(.*?)<\/code>/.exec(text)?.[1]?.replaceAll('<wbr>', '')

export async function setRole({ store, now }: TestService, email: string, role: string) {
  const { id = '' } = (await store.users.findByEmail(email)) ?? {}
  await store.users.set(id, { role }, changeAt(now()))
}

/** The variables of a service in production, with its own certificate and keys. */
export async function inProduction() {
  const folder = await ownFolder()
  const files = await writeCertificate(folder, 'served', { ip: '127.0.0.1' })
  const SIGNING_KEYS_FILE = join(folder, 'signing-keys.json')
  await ensureKeyFile(SIGNING_KEYS_FILE, new Date())
  return {
    ...{ NODE_ENV: 'production', BCRYPT_COST: '10', SIGNING_KEYS_FILE, ...files },
    ADMIN_TLS_CERT_FILE: files.TLS_CERT_FILE,
    ADMIN_TLS_KEY_FILE: files.TLS_KEY_FILE,
  }
}
