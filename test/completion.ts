// Types commands into a real shell and completes them with the tab key.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { PROJECT } from './process.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

/** What is typed, and the command that it becomes. In the current folder is a file people.csv. */
const CASES: [typed: string, command: string][] = [
  ['./login-service use\tlis\t--sta\tw\t', './login-service users list --state waiting'],
  ['./login-service help use\tset-\t', './login-service help users set-password'],
  ['./login-service users imp\tpeo\t', './login-service users import people.csv'],
  [
    './login-service users add --name people --ro\t',
    './login-service users add --name people --role',
  ],
  ['login-service comp\tz\t', 'login-service completion zsh'],
  ['login-admin adm\tad\tjobs --role w\t', 'login-admin admin-tokens add jobs --role write'],
]
const PROMPT = 'READY> '

async function makeHome(t: TestContext, shell: string) {
  const home = await makeTemporaryFolder('login-completion-')
  t.after(() => rm(home, { recursive: true }))
  await writeFile(join(home, 'people.csv'), '')
  const main = join(PROJECT, 'src', 'main.ts')
  return {
    home,
    script: execFileSync(process.execPath, [main, 'completion', shell], { cwd: home }),
  }
}

/** A shell that reads `rcFile`. The commands print how they were called. */
export async function assertCompletes(
  t: TestContext,
  shell: 'bash' | 'zsh',
  start: string,
  rcFile: string,
): Promise<void> {
  const { home, script } = await makeHome(t, shell)
  const stubs = ['login-service', 'login-admin'].map(
    name => `${name}() { echo "ran: ${name} $*"; }`,
  )
  await writeFile(join(home, 'login-service'), 'echo "ran: $0 $*"\n', { mode: 0o755 })
  await writeFile(join(home, rcFile), [`PS1='${PROMPT}'`, script, ...stubs, ''].join('\n'))
  const child = spawn('script', ['-qec', start, '/dev/null'], {
    cwd: home,
    env: { PATH: process.env.PATH ?? '', HOME: home, TERM: 'dumb', SHELL: '/bin/sh' },
  })
  t.after(() => child.kill('SIGKILL'))
  const lines = [...CASES.map(([typed]) => typed), 'exit']
  let entered = 0
  let screen = ''
  child.stdout.setEncoding('utf8').on('data', (shown: string) => {
    screen += shown
    const prompts = screen.split(PROMPT).length - 1
    if (prompts > entered && entered < lines.length) child.stdin.write(`${lines[entered++]}\r`)
  })
  await once(child, 'close')
  const ran = [...screen.matchAll(/^ran: (.*?) *\r?$/gm)].map(([, command]) => command)
  assert.deepEqual(
    ran,
    CASES.map(([, command]) => command),
    screen,
  )
}

/** Fish says how it would complete a text. */
export async function assertFishCompletes(t: TestContext): Promise<void> {
  const { home, script } = await makeHome(t, 'fish')
  const settings = join(home, '.config', 'fish', 'conf.d')
  await mkdir(settings, { recursive: true })
  await writeFile(join(settings, 'login-service.fish'), script)
  for (const [typed, command] of CASES) {
    let line = ''
    for (const part of typed.split('\t').slice(0, -1)) {
      line += part
      const options = { cwd: home, env: { PATH: process.env.PATH ?? '', HOME: home } }
      const found = execFileSync('fish', ['-c', `complete -C '${line}'`], options).toString()
      assert.match(found, /^\S+\n$/, line)
      line = `${line.replace(/\S*$/, '')}${found.trim()} `
    }
    assert.equal(line.trim(), command)
  }
}
