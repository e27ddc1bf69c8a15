// The commands that write users.
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import bcrypt from 'bcrypt'
import type { Store } from '../../../src/domain/store.ts'
import { TEST_COST } from '../../support/service.ts'
import { changeAt, insertTestUser } from '../fixtures.ts'
import type { Fixtures } from './command-fixtures.ts'
import type { Commands, Ended } from './commands.ts'
import type { Operation } from './loop.ts'
import { matches, NEW_PASSWORD } from './requests.ts'

const HASH = bcrypt.hashSync(NEW_PASSWORD, TEST_COST)
const NEW_NAME = 'Another'

export function userCommands(
  { run, folder }: Commands,
  store: Store,
  { newUser, countEvents, change }: Fixtures,
): Operation<Ended>[] {
  const imported = (title: string, ...options: string[]): Operation<Ended> => ({
    title: `users import ${title}`,
    // The report of an import is printed after its transaction.
    isInParts: true,
    async prepare() {
      const emails = [randomUUID(), randomUUID()].map(name => `${name}@example.com`)
      if (options.includes('--update')) {
        for (const email of emails) await insertTestUser(store, email, new Date())
      }
      const file = join(folder, `${randomUUID()}.ndjson`)
      const hash = options.includes('temporary') ? {} : { passwordHash: HASH }
      const lines = emails.map(email => JSON.stringify({ email, name: NEW_NAME, ...hash }))
      await writeFile(file, `${lines.join('\n')}\n`)
      return {
        email: null,
        run: () => run(['users', 'import', file, ...options]),
        async isDone() {
          const found = await Promise.all(emails.map(email => store.users.findByEmail(email)))
          const stored = found.filter(user => user?.name === NEW_NAME)
          // One transaction stores the batch.
          if (stored.length === 1) throw new Error('half of a batch is stored')
          return stored.length === 2
        },
      }
    },
  })

  return [
    ...[['--password-stdin'], ['--generate']].map(
      (options): Operation<Ended> => ({
        title: `users add ${options}`,
        async prepare() {
          const email = `${randomUUID()}@example.com`
          const args = ['users', 'add', email, '--name', 'Name', ...options]
          return {
            email,
            run: () => run(args, NEW_PASSWORD),
            isDone: async () => (await store.users.findByEmail(email)) !== null,
            countEvents: countEvents(email, 'user.added'),
          }
        },
      }),
    ),
    change(
      ['users', 'set', 'EMAIL', '--name', NEW_NAME],
      'user.changed',
      user => user.name === NEW_NAME,
    ),
    change(
      ['users', 'set-password', 'EMAIL', '--password-stdin'],
      'password.set',
      async user => user.passwordHash !== 'a hash' && matches(NEW_PASSWORD)(user),
      { input: NEW_PASSWORD },
    ),
    change(['users', 'deactivate', 'EMAIL'], 'user.deactivated', user => !user.isActive),
    change(['users', 'activate', 'EMAIL'], 'user.activated', user => user.isActive, {
      before: ({ id }) => store.users.deactivate(id, changeAt()),
    }),
    change(['users', 'lock', 'EMAIL'], 'user.locked', user => user.lockedBy === 'administrator'),
    change(['users', 'unlock', 'EMAIL'], 'user.unlocked', user => user.lockedUntil === null, {
      before: ({ id }) => store.users.lock(id, new Date('9999-01-01'), changeAt()),
    }),
    {
      title: 'users export-data EMAIL',
      // It is recorded before anything is read.
      async prepare() {
        const { email } = await newUser()
        return { email, run: () => run(['users', 'export-data', email]) }
      },
    },
    {
      title: 'users delete EMAIL --yes',
      isInParts: true,
      async prepare() {
        const { email } = await newUser()
        const isDone = async () => (await store.users.findByEmail(email)) === null
        return { email, run: () => run(['users', 'delete', email, '--yes']), isDone }
      },
    },
    imported('of hashes'),
    imported('with temporary passwords', '--without-passwords', 'temporary'),
    imported('--update', '--update'),
    {
      title: 'users export',
      prepare: async () => ({ email: null, run: () => run(['users', 'export']) }),
    },
  ]
}
