// The screen reader Orca on a screen of its own. It writes what it would speak; nothing is audible.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../support/postgres-server.ts'
import { createHome } from './webdriver.ts'

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
  const { home, start, stop, ready } = await createHome('orca-')
  const settings = join(home, '.local/share/orca')
  await mkdir(settings, { recursive: true })
  await writeFile(join(settings, 'orca-customizations.py'), WRITE_INSTEAD_OF_SPEAKING)
  // The number of the display only has to be free, like that of a port.
  const display = await freePort()
  const bus = join(home, 'bus')
  const env = {
    XDG_RUNTIME_DIR: home,
    DISPLAY: `:${display}`,
    DBUS_SESSION_BUS_ADDRESS: `unix:path=${bus}`,
    // Firefox describes its pages only if it is asked to.
    GNOME_ACCESSIBILITY: '1',
  }
  const address = `--address=${env.DBUS_SESSION_BUS_ADDRESS}`
  start(['Xvfb', env.DISPLAY], env)
  start(['dbus-daemon', '--session', '--nofork', address], env)
  for (const socket of [bus, `/tmp/.X11-unix/X${display}`]) {
    await ready(async () => assert.ok(existsSync(socket), `${socket} does not exist`))
  }
  // Orca speaks only what happens in the active window, and a window manager activates it.
  start(['matchbox-window-manager'], env)
  const orca = start(['orca'], env)
  /** All sentences so far. */
  const spoken = () => [...orca.output().matchAll(/^spoken: (.*)$/gm)].map(([, text = '']) => text)
  await ready(async () => assert.ok(spoken().includes('Screen reader on.')))
  return { env, spoken, stop }
}
