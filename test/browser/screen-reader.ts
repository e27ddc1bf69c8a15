// The screen reader Orca on a screen of its own. It writes what it would speak; nothing is audible.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../postgres-server.ts'
import { makeTemporaryFolder } from '../temporary-folder.ts'
import { eventually, runWithTheTests } from './webdriver.ts'

/** Orca runs this file of its user at the start. */
const WRITE_INSTEAD_OF_SPEAKING = `
import orca.speech
orca.speech._speak = lambda text, voice, interrupt: print('spoken:', text, flush=True)
`

export type ScreenReader = Awaited<ReturnType<typeof startScreenReader>>

export async function startScreenReader() {
  const home = await makeTemporaryFolder('orca-')
  const display = `:${await freePort()}`
  const env = {
    HOME: home,
    XDG_RUNTIME_DIR: home,
    DISPLAY: display,
    DBUS_SESSION_BUS_ADDRESS: `unix:path=${home}/bus`,
    // Firefox describes its pages only if it is asked to.
    GNOME_ACCESSIBILITY: '1',
  }
  const settings = join(home, '.local/share/orca')
  await mkdir(settings, { recursive: true })
  await writeFile(join(settings, 'orca-customizations.py'), WRITE_INSTEAD_OF_SPEAKING)
  const processes = [
    ['Xvfb', display],
    ['dbus-daemon', '--session', '--nofork', `--address=${env.DBUS_SESSION_BUS_ADDRESS}`],
  ].map(command => runWithTheTests(command, env))
  const stop = async () => {
    for (const { kill } of processes.toReversed()) kill('SIGKILL')
    await Promise.all(processes.map(({ exit }) => exit))
    await rm(home, { recursive: true, force: true, maxRetries: 10 })
  }
  await eventually(async () => assert.ok(existsSync(`/tmp/.X11-unix/X${display.slice(1)}`)))
  await eventually(async () => assert.ok(existsSync(`${home}/bus`)))
  processes.push(runWithTheTests(['matchbox-window-manager'], env))
  const orca = runWithTheTests(['orca'], env)
  processes.push(orca)
  /** All sentences so far. */
  const spoken = () => [...orca.output().matchAll(/^spoken: (.*)$/gm)].map(([, text = '']) => text)
  await eventually(async () => assert.ok(spoken().includes('Screen reader on.'), orca.output()))
  return { env, spoken, stop }
}
