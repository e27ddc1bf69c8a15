// The cookies. Only this host gets them, only over TLS; scripts and other sites cannot use them.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { DeviceCookie } from '../../login/device.ts'
import { digestOf } from '../../system/identifiers.ts'

/** The session cookie of an app. `prefix` precedes its value wherever that is digested: neither is good for the other. */
export type SessionCookie = { name: string; prefix: string }
export const PAGE_SESSION: SessionCookie = { name: '__Host-session', prefix: '' }
export const CONSOLE_SESSION: SessionCookie = { name: '__Host-console', prefix: 'console:' }
/** The decorator of an app for its session cookie. */
export const SESSION = 'sessionCookie'

const DEVICE = '__Host-device'
/** A user with a second factor has logged in with this browser: the form opens its field. It tells nothing else. */
const SECOND_STEP = '__Host-second-step'
/** Counts how often the page has sent its user to the same host within a short time. */
const DEPARTURES = '__Host-departures'
/** Says what a form of the page has just done. */
const DONE = '__Host-done'
/** For the page that follows at once. */
const NEXT_PAGE_SECONDS = 10
/** 256 bits in base64url. A value of another form was not issued here and is ignored. */
const SESSION_VALUE = /^[\w-]{43}$/
/** 256 bits, followed by a tag of 128 bits. */
const DEVICE_VALUE = /^[\w-]{65}$/
/** More than a browser keeps for one site. */
const MAX_COOKIES = 200

/** With its prefix. */
export function sessionCookieOf(request: FastifyRequest): string | null {
  const { name, prefix } = request.server.getDecorator<SessionCookie>(SESSION)
  const value = cookieOf(request, name, SESSION_VALUE)
  return value && prefix + value
}

export function deviceCookieOf(request: FastifyRequest): string | null {
  return cookieOf(request, DEVICE, DEVICE_VALUE)
}

export function hasSecondStepCookie(request: FastifyRequest): boolean {
  return cookieOf(request, SECOND_STEP, /^1$/) !== null
}

export function departuresOf(request: FastifyRequest, host: string): number {
  const [count, digest] = cookieOf(request, DEPARTURES, /^\d-[\da-f]{8}$/)?.split('-') ?? []
  return digest === shortDigest(host) ? Number(count) : 0
}

export function setDepartures(reply: FastifyReply, count: number, host: string): void {
  setCookie(reply, `${DEPARTURES}=${count}-${shortDigest(host)}`, NEXT_PAGE_SECONDS)
}

export function doneCookieOf(request: FastifyRequest): string | null {
  return cookieOf(request, DONE, /^[\w-]+$/)
}

export function setDoneCookie(reply: FastifyReply, done: string): void {
  setCookie(reply, `${DONE}=${done}`, NEXT_PAGE_SECONDS)
}

const shortDigest = (host: string) => digestOf(host).slice(0, 8)

function cookieOf({ headers }: FastifyRequest, name: string, form: RegExp): string | null {
  if (headers.cookie === undefined) return null
  for (const pair of headers.cookie.split(';', MAX_COOKIES)) {
    const cookie = pair.trim()
    if (!cookie.startsWith(`${name}=`)) continue
    const value = cookie.slice(name.length + 1)
    return form.test(value) ? value : null
  }
  return null
}

/** Without Max-Age the browser deletes it when it closes; the server decides when the session expires. */
export function setSessionCookie(reply: FastifyReply, prefixed: string): void {
  const { name, prefix } = reply.server.getDecorator<SessionCookie>(SESSION)
  setCookie(reply, `${name}=${prefixed.slice(prefix.length)}`)
}

export function setDeviceCookie(reply: FastifyReply, { value, maxAgeSeconds }: DeviceCookie): void {
  setCookie(reply, `${DEVICE}=${value}`, maxAgeSeconds)
}

export function setSecondStepCookie(reply: FastifyReply, { maxAgeSeconds }: DeviceCookie): void {
  setCookie(reply, `${SECOND_STEP}=1`, maxAgeSeconds)
}

export function clearSessionCookie(reply: FastifyReply): void {
  setCookie(reply, `${reply.server.getDecorator<SessionCookie>(SESSION).name}=`, 0)
}

function setCookie(reply: FastifyReply, cookie: string, maxAgeSeconds?: number): void {
  const age = maxAgeSeconds === undefined ? '' : `Max-Age=${maxAgeSeconds}; `
  reply.header('Set-Cookie', `${cookie}; ${age}Path=/; Secure; HttpOnly; SameSite=Strict`)
}
