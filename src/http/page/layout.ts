// The document around every page, and the pages that only say something.
import { type Html, html, type Value } from './html.ts'
import type { Page } from './page.ts'
import { type Texts, textsFor } from './texts.ts'

/** What all parts of one page share. */
export type Frame = Texts & {
  page: Page
  /** An address of the service with what forms and links keep of the query. Null drops a parameter. */
  href: (path: string, more?: Record<string, string | null>) => string
}

/** Nothing else of a query is kept. */
const KEPT = ['return_to', 'challenge', 'prompt', 'lang', 'after']

/** `dropped`: what is not kept any more. */
export function frameFor(
  page: Page,
  query: Record<string, unknown>,
  acceptLanguage: string | undefined,
  dropped: string[] = [],
): Frame {
  const kept = KEPT.flatMap(name => {
    const value = query[name]
    return typeof value === 'string' && !dropped.includes(name) ? [[name, value]] : []
  })
  const href: Frame['href'] = (path, more = {}) => {
    const all = new URLSearchParams(Object.fromEntries(kept))
    for (const [name, value] of Object.entries(more)) {
      if (value === null) all.delete(name)
      else all.set(name, value)
    }
    return all.size === 0 ? path : `${path}?${all}`
  }
  return { ...textsFor(query.lang, acceptLanguage), page, href }
}

export type Notice = { kind: 'error' | 'warning' | 'information'; text: Value }

/** It has the focus, so that screen readers read it when the page opens. */
export function noticeBox(notice: Notice | null | undefined): Value {
  return (
    notice &&
    html`<p id="notice" class="notice" aria-live="polite" data-kind="${notice.kind}" tabindex="-1" autofocus>${notice.text}</p>`
  )
}

type Document = {
  title: string
  /** Screen readers read the title first. */
  isError?: boolean
  head?: Html
  view?: 'account' | 'message'
}

export function toDocument(frame: Frame, { main, ...document }: Document & { main: Html }): string {
  const { page, others, text, href } = frame
  const { termsUrl, privacyUrl, folder, brandName } = page
  const body = html`<header>
      <img src="${folder}logo" alt="" height="40">
      <span id="brand" dir="auto">${brandName}</span>
    </header>
    <main>
      ${main}
    </main>
    <footer>
      ${termsUrl && html`<a href="${termsUrl}">${text('terms')}</a>`}
      ${privacyUrl && html`<a href="${privacyUrl}">${text('privacy')}</a>`}
      ${others.map(([lang, name]) => html`<a href="${href('', { lang })}" lang="${lang}" hreflang="${lang}">${name}</a>`)}
    </footer>`
  return withHead(frame, body, document)
}

export function withHead(
  { page, language, text }: Frame,
  body: Html,
  { title, isError, head, view }: Document,
): string {
  const { folder, brandName } = page
  return html`<!doctype html>
<html lang="${language}" dir="${text('direction')}">
  <head>
    <meta charset="utf-8">
    <title>${isError && `${text('error')}: `}${title} · ${brandName}</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="theme-color" content="#f4f5f7" media="(prefers-color-scheme: light)">
    <meta name="theme-color" content="#101216" media="(prefers-color-scheme: dark)">
    <meta name="robots" content="noindex">
    <link rel="icon" href="${folder}logo">
    <link rel="stylesheet" href="${folder}login.css">
    <script type="module" src="${folder}login.js"></script>${head}
  </head>
  <body${view && html` data-view="${view}"`}>
    ${body}
  </body>
</html>
`.text
}

/** Says why nothing was done, and leads to the login. */
export function failurePage(frame: Frame, notice: Notice): string {
  const { text, href } = frame
  const title = text('failedTitle')
  const main = html`<h1>${title}</h1>
      ${noticeBox(notice)}
      <a class="button primary" href="${href('/login')}">${text('goOn')}</a>`
  return toDocument(frame, { title, main, isError: true, view: 'message' })
}

export function notFoundPage(frame: Frame): string {
  const { text, href } = frame
  const title = text('notFoundTitle')
  const main = html`<h1>${title}</h1>
      <p>${text('notFound')}</p>
      <a class="button primary" href="${href('/login')}">${text('toLogin')}</a>`
  return toDocument(frame, { title, main, view: 'message' })
}

/**
 * Goes on to an application by itself: form-action keeps Chromium from following a redirect to another origin after a
 * form.
 */
export function leavingPage(frame: Frame, address: string): string {
  const { text } = frame
  const { host } = new URL(address)
  return refreshingPage(frame, address, text('leaving', { host }), text('continueTo', { host }))
}

/** The browser sends no Strict cookies with a request that another site caused, but does with the page's own one. */
export function askingAgainPage(frame: Frame, path: string): string {
  const { text, href } = frame
  return refreshingPage(frame, href(path, { again: '1' }), text('oneMoment'), text('goOn'))
}

/** The script follows the link: after a meta refresh, Firefox and WebKit were seen to send no Strict cookies. */
function refreshingPage(frame: Frame, address: string, title: string, link: string): string {
  const head = html`
    <noscript><meta http-equiv="refresh" content="0;url=${address}"></noscript>`
  const main = html`<h1><span class="spinner"></span> ${title}</h1>
      <a id="continue" class="button primary" href="${address}" data-go>${link}</a>`
  return toDocument(frame, { title, main, head, view: 'message' })
}

/** It is in English and needs no script. */
export function referencePage({ brandName, folder }: Page, reference: Html): string {
  return html`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>API reference · ${brandName}</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="robots" content="noindex">
    <link rel="icon" href="${folder}logo">
    <link rel="stylesheet" href="${folder}login.css">
    <link rel="stylesheet" href="${folder}reference.css">
  </head>
  <body>
    <header>
      <img src="${folder}logo" alt="" height="40">
      <span>${brandName}</span>
    </header>
    <main>
      <h1>API reference</h1>
      ${reference}
    </main>
  </body>
</html>
`.text
}
