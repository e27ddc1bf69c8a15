// The screen reader Orca on a screen of its own. It writes what it would speak; nothing is audible.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { missingOf } from '../support/debian-packages.ts'
import { freePort } from '../support/postgres-server.ts'
import type { RunningProcess } from '../support/process.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'
import { PACKAGES } from './packages.ts'
import { eventually, runWithTheTests } from './webdriver.ts'

/** Orca runs this file of its user at the start. */
const WRITE_INSTEAD_OF_SPEAKING = `
import orca.speech
orca.speech._speak = lambda text, voice, interrupt: print('spoken:', text, flush=True)
# A new page is read as a whole.
def say_all(parts, progress):
    for [context, voice] in parts:
        print('spoken:', context.utterance, flush=True)
orca.speech.sayAll = say_all
`

export async function startScreenReader() {
  const missing = missingOf(PACKAGES).join(', ')
  assert.equal(missing, '', `missing: ${missing}; "npm run test:browser" installs it`)
  const home = await makeTemporaryFolder('orca-')
  const settings = join(home, '.local/share/orca')
  await mkdir(settings, { recursive: true })
  await writeFile(join(settings, 'orca-customizations.py'), WRITE_INSTEAD_OF_SPEAKING)
  // The number of the display only has to be free, like that of a port.
  const display = await freePort()
  const bus = join(home, 'bus')
  const env = {
    HOME: home,
    XDG_RUNTIME_DIR: home,
    DISPLAY: `:${display}`,
    DBUS_SESSION_BUS_ADDRESS: `unix:path=${bus}`,
    // Firefox describes its pages only if it is asked to.
    GNOME_ACCESSIBILITY: '1',
  }
  const processes: RunningProcess[] = []
  const start = (...command: string[]) => {
    const started = runWithTheTests(command, env)
    processes.push(started)
    return started
  }
  const stop = async () => {
    for (const { kill } of processes) kill('SIGKILL')
    await Promise.all(processes.map(({ exit }) => exit))
    await rm(home, { recursive: true, force: true, maxRetries: 10 })
  }
  start('Xvfb', env.DISPLAY)
  start('dbus-daemon', '--session', '--nofork', `--address=${env.DBUS_SESSION_BUS_ADDRESS}`)
  for (const socket of [bus, `/tmp/.X11-unix/X${display}`]) {
    await eventually(async () => assert.ok(existsSync(socket), `${socket} does not exist`))
  }
  // Orca speaks only what happens in the active window, and a window manager activates it.
  start('matchbox-window-manager')
  const orca = start('orca')
  /** All sentences so far. */
  const spoken = () => [...orca.output().matchAll(/^spoken: (.*)$/gm)].map(([, text = '']) => text)
  const isReady = async () => assert.ok(spoken().includes('Screen reader on.'), orca.output())
  await eventually(isReady).catch(async cause => {
    await stop()
    throw cause
  })
  return { env, spoken, stop }
}
