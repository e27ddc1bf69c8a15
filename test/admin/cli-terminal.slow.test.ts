// Prompts at a terminal. script(1), which every Debian has, provides a real one.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
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
const DELETE = 'users delete ann@example.org'
const DELETE_QUESTION = 'Delete ann@example.org for good? [y/N] '

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

const isPassword = async (password: string) =>
  bcrypt.compare(password, String((await usersNow())[0]?.password_hash))

test('a password is asked for twice and is never shown', async () => {
  const ended = await converse(ADD, [
    ['Password: ', 'correct horsf\x7fe\r'],
    ['Repeat the password: ', 'correct horse\r'],
  ])
  const said = 'Added ann@example.org with the role "user".'
  assert.deepEqual(ended, { code: 0, screen: `Password: \nRepeat the password: \n${said}\n` })
  assert.ok(await isPassword('correct horse'))
})

test('a password that cannot be used, or is repeated wrongly, is asked for again', async () => {
  const { code, screen } = await converse('users set-password ann@example.org', [
    ['Password: ', 'short\r'],
    ['Password: ', 'another horse\r'],
    ['Repeat the password: ', 'another hose\r'],
    ['Password: ', 'another horse\r'],
    ['Repeat the password: ', 'another horse\r'],
  ])
  assert.deepEqual(screen.split('\n'), [
    'Password: ',
    'This password cannot be used: it has fewer than 8 characters; choose a longer one.',
    'Password: ',
    'Repeat the password: ',
    'The two passwords differ.',
    'Password: ',
    'Repeat the password: ',
    'Set the password of ann@example.org and ended all sessions.',
    '',
  ])
  assert.equal(code, 0)
  assert.ok(await isPassword('another horse'))
})

/** Fails unless this answer ends the command without a change. */
async function cancels(command: string, question: string, typed: string, shown: string) {
  const before = await usersNow()
  const ended = await converse(command, [[question, typed]])
  const screen = `${question}${shown}\nCancelled; nothing was changed.\n`
  assert.deepEqual(ended, { code: 1, screen })
  assert.deepEqual(await usersNow(), before)
}

test('a cancelled prompt changes nothing', async () => {
  for (const typed of [`secret${CTRL_C}`, CTRL_D]) {
    await cancels('users set-password ann@example.org', 'Password: ', typed, '')
    await cancels(DELETE, DELETE_QUESTION, typed.slice(-1), '')
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
  await cancels('sessions end --all', question, 'all\r', 'all')
  assert.equal(await countLive(), 3)
  const ended = await converse('sessions end --all', [[question, 'y\r']])
  assert.deepEqual(ended, { code: 0, screen: `${question}y\nEnded 3 sessions of all users.\n` })
  assert.equal(await countLive(), 0)
})

test('a user is deleted only after the answer "y"', async () => {
  for (const answer of ['', 'n', 'yeah']) {
    await cancels(DELETE, DELETE_QUESTION, `${answer}\r`, answer)
  }
  const ended = await converse(DELETE, [[DELETE_QUESTION, 'y\r']])
  assert.deepEqual(ended, { code: 0, screen: `${DELETE_QUESTION}y\nDeleted ann@example.org.\n` })
  assert.deepEqual(await usersNow(), [])
})
