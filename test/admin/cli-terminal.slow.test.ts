// Prompts at a terminal. script(1), which every Debian has, provides a real one.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { setUpCli } from '../support/cli.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { LAUNCH, NO_PINNED_NODE, oldNode } from '../support/old-node.ts'

const CTRL_C = '\x03'
const CTRL_D = '\x04'
/** Starts through an older Node, which must not read from the terminal itself. */
const START = [process.execPath, ...(NO_PINNED_NODE ? [] : oldNode()), LAUNCH]
  .map(word => `'${word.replaceAll("'", "'\\''")}'`)
  .concat('src/main.ts')
const ADD = 'users add ann@example.org --name Ann'

const cli = await setUpCli()

/** Types each answer when its question has appeared on the screen. */
async function converse(command: string, dialogue: [question: string, answer: string][]) {
  const words = [...START, command].join(' ')
  const child = spawn('script', ['-qec', words, '/dev/null'], {
    cwd: cli.folder,
    env: { ...cli.env, SHELL: '/bin/sh' },
  })
  const exited = once(child, 'close')
  const waiting = [...dialogue]
  let screen = ''
  let answeredAt = 0
  child.stdout.setEncoding('utf8').on('data', (shown: string) => {
    screen += shown
    const [next] = waiting
    if (!next || !screen.slice(answeredAt).includes(next[0])) return
    waiting.shift()
    answeredAt = screen.length
    child.stdin.write(next[1])
  })
  const [code] = await exited
  assert.deepEqual(waiting, [], `questions not asked; the screen was:\n${screen}`)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: removes the codes that move the cursor
  return { code, screen: screen.replace(/\r+\n/g, '\n').replace(/\x1b\[\d+[A-Z]/g, '') }
}

const usersNow = () => cli.database.rows('select email, password_hash from users')

test('a password is asked for twice and is never shown', async () => {
  const { code, screen } = await converse(ADD, [
    ['Password: ', 'correct horsf\x7fe\r'],
    ['Repeat the password: ', 'correct horse\r'],
  ])
  assert.equal(
    screen,
    'Password: \nRepeat the password: \nAdded ann@example.org with the role "user".\n',
  )
  assert.equal(code, 0)
  const [user] = await usersNow()
  assert.ok(await bcrypt.compare('correct horse', String(user?.password_hash)))
})

test('a password that cannot be used, or is repeated wrongly, is asked for again', async () => {
  const { code, screen } = await converse('users set-password ann@example.org', [
    ['Password: ', 'short\r'],
    ['Password: ', 'another horse\r'],
    ['Repeat the password: ', 'another hose\r'],
    ['Password: ', 'another horse\r'],
    ['Repeat the password: ', 'another horse\r'],
  ])
  assert.equal(
    screen,
    [
      'Password: ',
      'This password cannot be used: it has fewer than 8 characters; choose a longer one.',
      'Password: ',
      'Repeat the password: ',
      'The two passwords differ.',
      'Password: ',
      'Repeat the password: ',
      'Set the password of ann@example.org and ended all sessions.',
      '',
    ].join('\n'),
  )
  assert.equal(code, 0)
  const [user] = await usersNow()
  assert.ok(await bcrypt.compare('another horse', String(user?.password_hash)))
})

describe('a cancelled prompt changes nothing', () => {
  for (const [key, typed] of [
    ['Ctrl-C', `secret${CTRL_C}`],
    ['Ctrl-D', CTRL_D],
  ] as const) {
    test(`by ${key}, at a password`, async () => {
      const before = await usersNow()
      const ended = await converse('users set-password ann@example.org', [['Password: ', typed]])
      const screen = 'Password: \nCancelled; nothing was changed.\n'
      assert.deepEqual(ended, { code: 1, screen })
      assert.deepEqual(await usersNow(), before)
    })

    test(`by ${key}, at a question`, async () => {
      const question = 'Delete ann@example.org for good? [y/N] '
      const ended = await converse('users delete ann@example.org', [[question, typed.slice(-1)]])
      const screen = `${question}\nCancelled; nothing was changed.\n`
      assert.deepEqual(ended, { code: 1, screen })
      assert.equal((await usersNow()).length, 1)
    })
  }
})

test('--password-stdin is refused at a terminal, which would show the password', async () => {
  const { code, screen } = await converse('users set-password ann@example.org --password-stdin', [])
  assert.match(screen, /^--password-stdin is for pipes/)
  assert.equal(code, 2)
})

test('all sessions of all users end only after the answer "y"', async () => {
  const [user] = await cli.database.rows('select id from users')
  await fillSessions(cli.database, String(user?.id), 3, new Date())
  const countLive = async () =>
    (await cli.database.rows('select id from sessions where ended_at is null')).length
  const question = 'End all sessions of all users? [y/N] '
  const refused = await converse('sessions end --all', [[question, 'all\r']])
  assert.deepEqual(refused, {
    code: 1,
    screen: `${question}all\nCancelled; nothing was changed.\n`,
  })
  assert.equal(await countLive(), 3)
  const ended = await converse('sessions end --all', [[question, 'y\r']])
  assert.deepEqual(ended, { code: 0, screen: `${question}y\nEnded 3 sessions of all users.\n` })
  assert.equal(await countLive(), 0)
})

test('a user is deleted only after the answer "y"', async () => {
  const question = 'Delete ann@example.org for good? [y/N] '
  for (const answer of ['', 'n', 'yeah']) {
    const ended = await converse('users delete ann@example.org', [[question, `${answer}\r`]])
    assert.deepEqual(ended, {
      code: 1,
      screen: `${question}${answer}\nCancelled; nothing was changed.\n`,
    })
  }
  const ended = await converse('users delete ann@example.org', [[question, 'y\r']])
  assert.deepEqual(ended, { code: 0, screen: `${question}y\nDeleted ann@example.org.\n` })
  assert.deepEqual(await usersNow(), [])
})
