// An example of a reset: a person that has forgotten the password enters an address, and sets another password by a link
// that comes by mail. What a visitor sees, and how soon, never depends on whether the address has an account.
//
//   ADMIN_TOKEN=$(./login-service admin-tokens add reset --role write --valid 30d)
//   NODE_EXTRA_CA_CERTS=data/development-cert.pem ADMIN_TOKEN=$ADMIN_TOKEN \
//     npm exec -- node examples/reset.ts
//
// THIS TOKEN CAN TAKE OVER EVERY ACCOUNT, those of administrators too. Run the program alone on a machine or in a container,
// as a user of its own; let it reach nothing but the admin API and your mail server; add nothing to it that reads other
// input. Put a proxy with TLS and a limit of requests in front of it.
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'

const { ADMIN_URL = 'https://localhost:8444', ADMIN_TOKEN, PORT = '3002' } = process.env
const { OWN_URL = `http://localhost:${PORT}`, LOGIN_URL = 'https://localhost:8443/login' } =
  process.env

/** Fill this in. */
async function sendMail(to: string, message: string): Promise<void> {
  process.stdout.write(`${JSON.stringify({ to, message })}\n`)
}

const LINK_MINUTES = 30
/** Between two mails to an address: otherwise strangers could fill its mailbox. */
const PAUSE_MINUTES = 5
const MAX_LINKS = 10_000

/** By the digest of the token in each link. With several instances of this program, keep them in a table. */
const links = new Map<string, { userId: string; sentMs: number }>()

const digestOf = (token: string) => createHash('sha256').update(token).digest('hex')
const minutesSince = (ms: number) => (Date.now() - ms) / 60_000

function callAdmin(path: string, method = 'GET', body?: object): Promise<Response> {
  return fetch(`${ADMIN_URL}/admin/v1/users/${path}`, {
    method,
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
}

type Found = { data: { id: string; email: string; isActive: boolean } }

async function sendLink(typed: string): Promise<void> {
  const found = typed.includes('@') ? await callAdmin(encodeURIComponent(typed)) : null
  if (!found || found.status === 404) return
  if (!found.ok) throw new Error(`the admin API answered ${found.status}`)
  const { id, email, isActive } = ((await found.json()) as Found).data
  for (const [digest, { sentMs }] of links) {
    if (minutesSince(sentMs) >= LINK_MINUTES) links.delete(digest)
  }
  const isRecent = [...links.values()].some(
    link => link.userId === id && minutesSince(link.sentMs) < PAUSE_MINUTES,
  )
  if (!isActive || isRecent || links.size >= MAX_LINKS) return
  const token = randomBytes(32).toString('base64url')
  links.set(digestOf(token), { userId: id, sentMs: Date.now() })
  const link = `${OWN_URL}/reset/confirm?token=${token}`
  // To the stored address, not to the typed one.
  await sendMail(email, `Set a new password within ${LINK_MINUTES} minutes: ${link}`)
}

/** The answer to the form behind the link. */
async function reset(token: string, password: string): Promise<Page> {
  const digest = digestOf(token)
  const link = links.get(digest)
  // Deleted before the request, so that of several at once only one is made.
  links.delete(digest)
  if (!link || minutesSince(link.sentMs) >= LINK_MINUTES) return ENDED
  // By the id: another user may have got the address since. It ends all sessions.
  const path = `${link.userId}/password`
  const set = await callAdmin(path, 'PUT', { password }).catch(() => null)
  if (set?.ok) {
    for (const [other, { userId }] of links) if (userId === link.userId) links.delete(other)
    return [200, `Your password is set. <a href="${LOGIN_URL}">Log in</a>`]
  }
  if (set?.status === 404) return ENDED
  links.set(digest, link)
  const unfit = 'Choose another password: it is too short, too common or like your name or email.'
  if (set?.status === 400) return [400, `<p role="alert">${unfit}</p>${confirm(token)}`]
  process.stderr.write(`the admin API answered ${set?.status ?? 'nothing'}\n`)
  return [503, `<p role="alert">Try again later.</p>${confirm(token)}`]
}

type Page = [status: number, html: string]
const ENDED: Page = [410, 'This link has ended. <a href="/reset">Get another one</a>']
const START =
  '<form method="post"><label>Email <input name="email" type="email" autocomplete="email" required></label><button>Send a link</button></form>'
/** Mail programs open links by themselves, so only this form uses up the token. */
const confirm = (token: string) =>
  `<form method="post" action="/reset/confirm"><input type="hidden" name="token" value="${token}"><label>New password <input name="password" type="password" autocomplete="new-password" required></label><button>Save</button></form>`

async function answer(request: IncomingMessage): Promise<Page> {
  const { pathname, searchParams } = new URL(request.url ?? '', OWN_URL)
  const isPost = request.method === 'POST'
  if (isPost && !(Number(request.headers['content-length']) <= 4_096)) return [413, 'Too large']
  const form = new URLSearchParams(isPost ? await text(request) : '')
  const [token = ''] = /^[\w-]{43}$/.exec((isPost ? form : searchParams).get('token') ?? '') ?? []
  if (pathname === '/reset/confirm') {
    if (isPost) return reset(token, form.get('password') ?? '')
    return links.has(digestOf(token)) ? [200, confirm(token)] : ENDED
  }
  if (pathname !== '/reset') return [404, 'Not found']
  if (!isPost) return [200, START]
  // Not awaited: how long it takes would tell whether there is an account.
  sendLink(form.get('email') ?? '').catch(error => process.stderr.write(`${error}\n`))
  return [200, 'If this address has an account, we have sent a mail with a link to it.']
}

createServer(async (request, response) => {
  const [status, html] = await answer(request).catch((): Page => [400, 'Bad request'])
  response.writeHead(status, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
    'Cache-Control': 'no-store',
    'Referrer-Policy': 'no-referrer',
  })
  response.end(`<!doctype html><html lang="en"><title>Reset</title>${html}`)
}).listen(Number(PORT), '127.0.0.1', () => process.stdout.write(`listening on ${OWN_URL}\n`))
