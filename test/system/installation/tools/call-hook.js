// Runs the hook of examples/use-login.ts in React, and prints its user and its error at first and after each call.
import { JSDOM } from 'jsdom'

const { window } = new JSDOM('<main></main>')
Object.assign(globalThis, { window, document: window.document, IS_REACT_ACT_ENVIRONMENT: true })
// React looks for a window when it is loaded.
const { act, createElement, StrictMode } = await import('react')
const { createRoot } = await import('react-dom/client')
const { LoginClient } = await import('./login-client.js')
const { useLogin } = await import('./use-login.ts')

const { LOGIN_URL, EMAIL, PASSWORD } = process.env
const NEXT = 'seven green boats at noon'
const HOUR_MS = 3_600_000

const client = new LoginClient(LOGIN_URL)
const { promise: released, resolve: release } = Promise.withResolvers()
const restore = client.restore.bind(client)
client.restore = () => released.then(restore)

let shown
const Page = () => {
  shown = useLogin(client)
  return null
}
const root = createRoot(window.document.querySelector('main'))

const otherClientEndsAll = async () => {
  const other = new LoginClient(LOGIN_URL)
  await other.login(EMAIL, NEXT)
  await other.logoutEverywhere()
  Date.now = () => performance.timeOrigin + performance.now() + HOUR_MS
  await shown.accessToken()
}

for (const call of [
  () => root.render(createElement(StrictMode, null, createElement(Page))),
  release,
  () => shown.login(EMAIL, 'wrong'),
  () => shown.login(EMAIL, PASSWORD),
  () => shown.changePassword(EMAIL, PASSWORD, 'short'),
  () => shown.changePassword(EMAIL, PASSWORD, NEXT),
  () => shown.accessToken(),
  otherClientEndsAll,
  () => shown.login(EMAIL, NEXT, '492039'),
  () => shown.changeSecondFactor(EMAIL, NEXT, { recoveryCodes: true }),
  () => shown.logout(),
]) {
  await act(async () => call())
  const user = shown.user === undefined ? 'unknown' : (shown.user?.email ?? null)
  process.stdout.write(`${JSON.stringify([user, shown.error?.code])}\n`)
}
await act(async () => root.unmount())
