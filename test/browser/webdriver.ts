// Chromium, Firefox and WebKit from Debian's packages, all driven in the same way.
import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { missingOf } from '../support/debian-packages.ts'
import { eventually, freePort } from '../support/postgres-server.ts'
import { type RunningProcess, run } from '../support/process.ts'
import { PASSWORD } from '../support/service.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'
import { FLAGS, findChromium, findHeadlessChromium, trustFlag } from './browser.ts'
import { openDriverSession, openFirefoxSession, type Send } from './commands.ts'
import { PACKAGES } from './packages.ts'

/** Programs and their home folder. They end when the process of the tests ends, even if that is killed. */
export async function createHome(prefix: string) {
  const missing = missingOf(PACKAGES).join(', ')
  assert.equal(missing, '', `missing: ${missing}; "npm run test:browser" installs it`)
  const home = await makeTemporaryFolder(prefix)
  const processes: RunningProcess[] = []
  async function stop() {
    for (const { kill } of processes) kill('SIGKILL')
    await Promise.all(processes.map(({ exit }) => exit))
    await rm(home, { recursive: true, force: true, maxRetries: 10 })
  }
  return {
    home,
    start(command: string[], env: Environment) {
      const withTheTests = ['setpriv', '--pdeathsig', 'KILL', ...command]
      const started = run({ HOME: home, ...env }, { command: withTheTests })
      processes.push(started)
      return started
    },
    stop,
    /** Repeats an attempt to use them; stops them if it never succeeds. */
    ready: <T>(attempt: () => Promise<T>) =>
      eventually(attempt).catch(async cause => {
        await stop()
        const output = processes.map(process => process.output()).join('')
        throw new Error(`${prefix} does not start: ${output}`, { cause })
      }),
  }
}

type Environment = Record<string, string>
type Start = {
  port: number
  /** The browser's own home folder, which is removed with it. */
  home: string
  /** A tag such as de-DE. */
  language: string
  /** On a screen, the browser also tells a screen reader what it shows. */
  isOnScreen: boolean
  hasScripts: boolean
  /** Chromium has no passkeys on a page whose certificate it does not trust. */
  trustedKey: string | undefined
}
type Program = { commands: string[][]; env?: Environment; openSession: () => Promise<Send> }

const BROWSERS = {
  chromium({ port, language, isOnScreen, hasScripts, trustedKey }: Start): Program {
    const args = [
      ...[...FLAGS, '--remote-debugging-pipe', `--accept-lang=${language}`],
      ...(trustedKey ? [trustFlag(trustedKey)] : []),
      isOnScreen ? '--force-renderer-accessibility' : '--headless',
      ...(hasScripts ? [] : ['--blink-settings=scriptEnabled=false']),
    ]
    const binary = isOnScreen ? findChromium() : findHeadlessChromium()
    const options = { 'goog:chromeOptions': { binary, args } }
    return {
      commands: [['chromedriver', `--port=${port}`]],
      openSession: () => openDriverSession(port, options),
    }
  },

  async firefox({ port, home, language, isOnScreen, hasScripts }: Start): Promise<Program> {
    const screen = isOnScreen ? [] : ['--headless']
    const settings = {
      'marionette.port': port,
      'intl.accept_languages': language,
      'javascript.enabled': hasScripts,
      // A third less work: fewer frames, no start page, and no processes in advance.
      'layout.frame_rate': 10,
      'browser.startup.page': 0,
      'dom.ipc.processPrelaunch.enabled': false,
      // For authenticators in software.
      'security.webauth.webauthn_enable_softtoken': true,
      'security.webauth.webauthn_enable_usbtoken': false,
    }
    const lines = Object.entries(settings).map(
      ([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});`,
    )
    await writeFile(join(home, 'user.js'), lines)
    return {
      commands: [['firefox-esr', ...screen, '--marionette', '--profile', home]],
      openSession: () => openFirefoxSession(port),
    }
  },

  async webkit({ port, home, language, hasScripts }: Start): Promise<Program> {
    // WebKit takes its language from the name of the locale. A locale of that name must exist.
    const locale = `${language.replace('-', '_')}.UTF-8`
    await symlink('/usr/lib/locale/C.utf8', join(home, locale))
    const [binary] = globSync('/usr/lib/*/webkit2gtk-4.1/MiniBrowser')
    const options = {
      'webkitgtk:browserOptions': {
        binary,
        args: ['--automation', ...(hasScripts ? [] : ['--enable-javascript=FALSE'])],
      },
    }
    return {
      // The number of the display only has to be free, like that of the port.
      commands: [
        ['Xvfb', `:${port}`],
        ['WebKitWebDriver', `--port=${port}`],
      ],
      env: {
        DISPLAY: `:${port}`,
        LOCPATH: home,
        LC_ALL: locale,
        // Without a graphics card, this way of drawing takes a third more work.
        WEBKIT_DISABLE_DMABUF_RENDERER: '1',
      },
      openSession: () => openDriverSession(port, options),
    }
  },
}

export type BrowserName = keyof typeof BROWSERS
export const BROWSER_NAMES = Object.keys(BROWSERS) as BrowserName[]

export type Browser = Awaited<ReturnType<typeof startBrowser>>

/** Starts a browser with an empty profile; with the environment of a screen, on that screen. */
export async function startBrowser(
  name: BrowserName,
  language: string,
  {
    screen,
    hasScripts = true,
    trustedKey,
  }: { screen?: Environment; hasScripts?: boolean; trustedKey?: string } = {},
) {
  const { home, start, stop, ready } = await createHome(`${name}-`)
  const port = await freePort()
  const { commands, env, openSession } = await BROWSERS[name]({
    ...{ port, home, language, isOnScreen: screen !== undefined, hasScripts, trustedKey },
  })
  for (const command of commands) start(command, { ...screen, ...env })
  const send = await ready(openSession)
  let current = ''
  return {
    async openWindow() {
      const { handle } = (await send('NewWindow', { type: 'window' })) as { handle: string }
      return createWindow(async (command, parameters) => {
        if (current !== handle) await send('SwitchToWindow', { handle })
        current = handle
        return send(command, parameters)
      })
    },
    // A driver ends its browser with the session.
    stop: () => send('DeleteSession').finally(stop),
  }
}

export type Window = ReturnType<typeof createWindow>

function createWindow(send: Send) {
  const evaluate = async <T>(script: string) =>
    (await send('ExecuteScript', { script: `return ${script}`, args: [] })) as T

  /** Waits for an element that is displayed. */
  const act = (css: string, action: Parameters<Send>[0], parameters = {}) =>
    eventually(async () => {
      const element = await send('FindElement', { using: 'css selector', value: css })
      const [id] = Object.values(element as Record<string, string>)
      await send(action, { id, ...parameters })
    })

  const click = (css: string) => act(css, 'ElementClick')
  const type = async (css: string, text: string) => {
    await act(css, 'ElementClear')
    await act(css, 'ElementSendKeys', { text })
  }

  /** Waits until the displayed ones of these elements have these texts. */
  const shows = (css: string, ...expected: (string | RegExp)[]) =>
    eventually(async () => {
      const shown = await evaluate<string[]>(`[...document.querySelectorAll(${JSON.stringify(css)})]
        .filter(it => it.checkVisibility()).map(it => it.innerText.trim())`)
      assert.equal(shown.length, expected.length, `${css}: ${shown}`)
      for (const [index, text] of shown.entries()) {
        const one = expected[index] ?? ''
        if (typeof one === 'string') assert.equal(text, one)
        else assert.match(text, one)
      }
      return shown
    })

  return {
    open: (url: string) => send('Navigate', { url }),
    reload: () => send('Refresh'),
    resize: (width: number, height: number) => send('SetWindowRect', { width, height }),
    forgetCookies: () => send('DeleteAllCookies'),
    url: () => send('GetCurrentURL'),
    evaluate,
    click,
    type,
    /** On a login page that shows the form. */
    async logIn(email: string, password = PASSWORD) {
      await type('#email', email)
      await type('#password', password)
      await click('#log-in:enabled')
    },
    /** As if the end of a wait had come. */
    skipWait: () => evaluate('(now => { window.Date.now = () => now() + 900_000 })(Date.now)'),
    shows,
    hides: (css: string) => shows(css),
    /** An authenticator in software, which keeps passkeys and presses its button by itself. */
    addAuthenticator: (isUserVerified: boolean) =>
      send('WebAuthn:AddVirtualAuthenticator', {
        ...{ protocol: 'ctap2', transport: 'internal', hasResidentKey: true },
        ...{ hasUserVerification: isUserVerified, isUserVerified, isUserConsenting: true },
      }),
  }
}
