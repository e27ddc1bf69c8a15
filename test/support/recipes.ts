// The code of docs/integrating.md and docs/migrating.md, and a folder in which it and the examples run as printed, except
// for the addresses.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { copyFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { findMachineNode } from './old-node.ts'
import { PROJECT } from './process.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

const DOCUMENT = readFileSync(join(PROJECT, 'docs/integrating.md'), 'utf8')
export const DOCUMENT_ON_MIGRATING = readFileSync(join(PROJECT, 'docs/migrating.md'), 'utf8')

export const example = (name: string) => readFileSync(join(PROJECT, 'examples', name), 'utf8')

/** The n-th block in this language under a heading that begins like this. */
export function recipe(heading: string, language: string, n = 0, document = DOCUMENT): string {
  const [, section] = document.split(new RegExp(`^#+ ${heading}.*\\n`, 'm'))
  const [own = ''] = section?.split(/^#+ /m) ?? []
  const blocks = [...own.matchAll(/^```(\w+)\n(.*?)^```$/gms)].filter(it => it[1] === language)
  const code = blocks[n]?.[2]
  if (code === undefined) throw new Error(`no ${language} under "${heading}"`)
  return code
}

/** A server with sessions of its own, by these functions of sessions.js; `answers` are its other branches. */
export const serverWithSessions = (names: string, answers: string) => `
  import { readFileSync } from 'node:fs'
  import { createServer } from 'node:https'
  import { userOf, ${names} } from './sessions.js'

  const { CERT_FILE, KEY_FILE, PORT } = process.env
  const tls = { cert: readFileSync(CERT_FILE), key: readFileSync(KEY_FILE) }
  createServer(tls, async (request, response) => {
    const send = (type, body) => response.setHeader('Content-Type', type).end(body)
    const user = userOf(request)
    ${answers}
    else if (user) send('text/html', '<p>Hello ' + user.name)
    else response.writeHead(302, { Location: '/log-in' }).end()
  }).listen(PORT, 'localhost', () => console.log('https://localhost:' + PORT))`

/** With the client, the verifier and these packages. Each printed address is replaced by the real one. */
export async function makeRecipeFolder(
  addresses: Record<string, string>,
  certFile: string,
  packages = join(PROJECT, 'node_modules'),
) {
  const path = await makeTemporaryFolder('login-recipe-')
  for (const name of ['login-client.js', 'verifier.js']) {
    await copyFile(join(PROJECT, 'examples', name), join(path, name))
  }
  await symlink(packages, join(path, 'node_modules'))
  await writeFile(join(path, 'package.json'), '{"type":"module"}')
  const trusting = Object.fromEntries(
    ['NODE_EXTRA_CA_CERTS', 'CURL_CA_BUNDLE', 'SSL_CERT_FILE'].map(name => [name, certFile]),
  )
  const started: ReturnType<typeof start>[] = []

  function start(command: string[], env: Record<string, string> = {}) {
    const [file = '', ...args] = command
    return spawn(file, args, {
      cwd: path,
      env: { PATH: process.env.PATH ?? '', ...trusting, ...env },
    })
  }

  return {
    path,
    start,
    async write(name: string, code: string) {
      let placed = code
      for (const [printed, real] of Object.entries(addresses)) {
        placed = placed.replaceAll(printed, real)
      }
      await writeFile(join(path, name), placed)
    },
    /** Runs a command in this folder; throws if it fails. Returns what it prints. */
    async run(command: string[], env: Record<string, string> = {}) {
      const child = start(command, env)
      child.stdin.end()
      const [output, errors, [code]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, 'exit'),
      ])
      assert.equal(code, 0, `${command.join(' ')} ended with ${code}:\n${output}${errors}`)
      return output
    },
    /** Starts a script of this folder as a server with the certificate; returns the address that it prints. */
    async serve(name: string, port = 0) {
      const keyFile = certFile.replace('cert.pem', 'key.pem')
      const env = { CERT_FILE: certFile, KEY_FILE: keyFile, PORT: String(port) }
      const child = start([findMachineNode(), name], env)
      started.push(child)
      // It also reports the faults that tests cause on purpose.
      const errors = text(child.stderr)
      const ended = errors.then(said => {
        throw new Error(`${name} ended:\n${said}`)
      })
      ended.catch(() => {})
      const [address] = await Promise.race([once(child.stdout, 'data'), ended])
      return String(address).trim()
    },
    async remove() {
      for (const child of started) child.kill('SIGKILL')
      await rm(path, { recursive: true })
    },
  }
}
