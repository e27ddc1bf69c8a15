// A browser without scripts: it keeps cookies, follows redirects, and sends the forms of pages.
import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { changeAt } from '../storage/fixtures.ts'
import { type Answer, PASSWORD, type TestService } from './service.ts'

/** What a browser sends with a page that its user opens. */
export const NAVIGATION = { 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' }

/** `from`: a loopback address, which identifies the client. */
export function createVisitor(service: Pick<TestService, 'call'>, from = '127.0.0.1') {
  const cookies = new Map<string, string>()

  async function send(
    method: string,
    path: string,
    headers: OutgoingHttpHeaders,
    fields?: object,
  ): Promise<Answer> {
    // Cookies are Strict.
    const isForeign = headers['Sec-Fetch-Site'] === 'cross-site'
    const sent = isForeign ? [] : [...cookies].map(([name, value]) => `${name}=${value}`)
    const answer = await service.call({
      method,
      path,
      from,
      headers: {
        ...(sent.length > 0 && { Cookie: sent.join('; ') }),
        ...(fields && { 'Content-Type': 'application/x-www-form-urlencoded' }),
        Accept: 'text/html',
        ...NAVIGATION,
        ...headers,
      },
      ...(fields && { body: String(new URLSearchParams({ ...fields })) }),
    })
    for (const line of answer.headers['set-cookie'] ?? []) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (line.includes('Max-Age=0')) cookies.delete(name)
      else cookies.set(name, value)
    }
    return answer
  }
  const get = (path: string, headers: OutgoingHttpHeaders = {}) =>
    send('GET', path, { 'Sec-Fetch-Site': 'same-origin', ...headers })
  /** As a form of a page sends it. Follows the redirect after success. */
  async function post(path: string, fields = {}, headers: OutgoingHttpHeaders = {}) {
    const answer = await send('POST', path, { 'Sec-Fetch-Site': 'same-origin', ...headers }, fields)
    return answer.status === 303 ? get(String(answer.headers.location)) : answer
  }
  return {
    cookies,
    /** Follows no redirect. */
    send,
    get,
    post,
    logIn: (email: string, password = PASSWORD, path = '/login') => post(path, { email, password }),
    /** Sends the form whose action begins so, with its hidden fields; `to`: where a button of its own leads. */
    submit({ text }: Answer, action: string, fields: Record<string, string> = {}, to = '') {
      const forms = [...text.matchAll(/<form [^>]*action="([^"]*)">.*?<\/form>/gs)]
      const [html, path] = forms.find(([, given = '']) => given.startsWith(action)) ?? []
      assert.ok(html && path, `no form ${action} in ${text}`)
      const hidden = [...html.matchAll(/type="hidden" name="([\w-]+)" value="([^"]*)"/g)]
      const given = hidden.map(([, name = '', value = '']) => [name, unescaped(value)])
      return post(to || unescaped(path), { ...Object.fromEntries(given), ...fields })
    },
  }
}

export const unescaped = (html: string) =>
  html.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))

/** The text of the element with this id, without markup; undefined if there is none. */
export function textIn({ text }: Answer, id: string): string | undefined {
  const [, , inner] = new RegExp(`<(\\w+) id="${id}"[^>]*>(.*?)</\\1>`, 's').exec(text) ?? []
  return inner === undefined ? undefined : unescaped(inner.replace(/<[^>]*>/g, '')).trim()
}

export const noticeIn = (page: Answer) => textIn(page, 'notice')

/** The address to which the page goes on by itself. */
export function refreshIn({ text }: Answer): string | undefined {
  const [, address] = /http-equiv="refresh" content="0;url=([^"]*)"/.exec(text) ?? []
  return address === undefined ? undefined : unescaped(address)
}

/** The user's password stays the same, but is now temporary. */
export async function makeTemporary({ store, now }: TestService, email: string): Promise<void> {
  const { id = '', passwordHash = '' } = (await store.users.findByEmail(email)) ?? {}
  const until = new Date(now().getTime() + 3_600_000)
  await store.users.setPassword(id, passwordHash, changeAt(now()), until)
}
