// An example of a registration: a person enters an address, gets a link by mail, and chooses name and password there. The
// user is added after that, so that only owners of an address get an account. What a visitor sees never depends on whether
// the address has one.
//
//   ADMIN_TOKEN=$(./login-service admin-tokens add registration --role create)
//   NODE_EXTRA_CA_CERTS=data/development-cert.pem ADMIN_TOKEN=$ADMIN_TOKEN \
//     npm exec -- node examples/registration.ts
//
// This token only adds users with the default role. Put a proxy with TLS and a limit of requests in front of the program.
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'

const { ADMIN_URL = 'https://localhost:8444', ADMIN_TOKEN, PORT = '3001' } = process.env
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
/** No list of addresses, and nothing that could end the header of a mail. */
const EMAIL = /^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z\d.-]{3,189}$/i

/** By the digest of the token in each link. With several instances of this program, keep them in a table. */
const links = new Map<string, { email: string; sentMs: number }>()

const digestOf = (token: string) => createHash('sha256').update(token).digest('hex')
const minutesSince = (ms: number) => (Date.now() - ms) / 60_000

async function sendLink(email: string): Promise<void> {
  for (const [digest, { sentMs }] of links) {
    if (minutesSince(sentMs) >= LINK_MINUTES) links.delete(digest)
  }
  const recent = [...links.values()].some(
    link => link.email === email && minutesSince(link.sentMs) < PAUSE_MINUTES,
  )
  if (recent || links.size >= MAX_LINKS) return
  const token = randomBytes(32).toString('base64url')
  links.set(digestOf(token), { email, sentMs: Date.now() })
  const link = `${OWN_URL}/register/confirm?token=${token}`
  await sendMail(email, `Register within ${LINK_MINUTES} minutes: ${link}`)
}

/** The answer to the form behind the link. */
async function register(token: string, name: string, password: string): Promise<Page> {
  const digest = digestOf(token)
  const link = links.get(digest)
  // Deleted before the request, so that of several at once only one is made.
  links.delete(digest)
  if (!link || minutesSince(link.sentMs) >= LINK_MINUTES) return ENDED
  const answer = await fetch(`${ADMIN_URL}/admin/v1/users`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ email: link.email, name, password }),
  }).catch(() => null)
  if (answer?.status === 201) return [200, `Welcome! <a href="${LOGIN_URL}">Log in</a>`]
  // Only the owner of the address gets here.
  if (answer?.status === 409) return [200, `You have an account. <a href="${LOGIN_URL}">Log in</a>`]
  links.set(digest, link)
  const unfit = 'Choose another password: it is too short, too common or like your name or email.'
  if (answer?.status === 400) return [400, `<p role="alert">${unfit}</p>${confirm(token)}`]
  process.stderr.write(`the admin API answered ${answer?.status ?? 'nothing'}\n`)
  return [503, `<p role="alert">Try again later.</p>${confirm(token)}`]
}

type Page = [status: number, html: string]
const ENDED: Page = [410, 'This link has ended. <a href="/register">Get another one</a>']
const START =
  '<form method="post"><label>Email <input name="email" type="email" autocomplete="email" required></label><button>Register</button></form>'
/** Mail programs open links by themselves, so only this form uses up the token. */
const confirm = (token: string) =>
  `<form method="post" action="/register/confirm"><input type="hidden" name="token" value="${token}"><label>Name <input name="name" autocomplete="name" required></label><label>Password <input name="password" type="password" autocomplete="new-password" required></label><button>Register</button></form>`

async function answer(request: IncomingMessage): Promise<Page> {
  const { pathname, searchParams } = new URL(request.url ?? '', OWN_URL)
  const isPost = request.method === 'POST'
  if (isPost && !(Number(request.headers['content-length']) <= 4_096)) return [413, 'Too large']
  const form = new URLSearchParams(isPost ? await text(request) : '')
  const [email = '', name = '', password = ''] = ['email', 'name', 'password'].map(
    field => form.get(field) ?? '',
  )
  const [token = ''] = /^[\w-]{43}$/.exec((isPost ? form : searchParams).get('token') ?? '') ?? []
  if (pathname === '/register/confirm') {
    if (isPost) return register(token, name, password)
    return links.has(digestOf(token)) ? [200, confirm(token)] : ENDED
  }
  if (pathname !== '/register') return [404, 'Not found']
  if (!isPost) return [200, START]
  if (!EMAIL.test(email)) return [400, START]
  await sendLink(email.toLowerCase()).catch(error => process.stderr.write(`${error}\n`))
  return [200, 'We have sent you a mail with a link.']
}

createServer(async (request, response) => {
  const [status, html] = await answer(request).catch((): Page => [400, 'Bad request'])
  response.writeHead(status, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
    'Cache-Control': 'no-store',
    // The link's token must not reach the page to which a link leads.
    'Referrer-Policy': 'no-referrer',
  })
  response.end(`<!doctype html><html lang="en"><title>Register</title>${html}`)
}).listen(Number(PORT), '127.0.0.1', () => process.stdout.write(`listening on ${OWN_URL}\n`))
