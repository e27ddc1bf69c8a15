// The document around every page of the console, its tables, and its times. It is in English, and in UTC.
import type { FastifyReply } from 'fastify'
import type { UserState } from '../../domain/user.ts'
import { breakable } from '../../http/page/fragments.ts'
import { type Html, html, type Value } from '../../http/page/html.ts'
import { type Frame, type Notice, noticeBox, withHead } from '../../http/page/layout.ts'
import type { Page } from '../../http/page/page.ts'
import { textsFor } from '../../http/page/texts.ts'
import { sendPage } from '../../http/routes/page.ts'
import { untilOf } from '../operations/explanation.ts'
import type { Visit } from './visit.ts'

/** Its addresses keep their query. */
export function consoleFrame(page: Page): Frame {
  const href: Frame['href'] = (path, more = {}) => {
    const added = new URLSearchParams(more as Record<string, string>)
    return added.size === 0 ? path : `${path}${path.includes('?') ? '&' : '?'}${added}`
  }
  return { ...textsFor('en', undefined), page, href }
}

type Content = { title: string; main: Html; notice?: Notice | null; isNarrow?: boolean }

export function send(visit: Visit, { title, main, notice, isNarrow }: Content): FastifyReply {
  const { deps, request, reply, user, rank, csrf, hasSecondFactor, now } = visit
  const { folder, brandName } = deps.page
  const link = (name: string) =>
    html`<a href="/console/${name}"${request.url.startsWith(`/console/${name}`) && html` aria-current="true"`}>${capitalized(name)}</a> `
  const body = html`<a class="skip" href="#main">Skip to the content</a>
    <header class="title-row">
      <div class="label-row">
        <a href="/console/people"><img src="${folder}logo" alt="" height="28"><strong dir="auto">${brandName}</strong></a>
        ${rank && html`<nav class="label-row detail" aria-label="Console">${['people', 'history'].map(link)}</nav>`}
      </div>
      <div class="label-row">
        <p class="detail"><bdi>${user.name}</bdi> <span class="badge" dir="auto">${user.role}</span></p>
        <form method="post" action="/login/logout"><input type="hidden" name="csrf" value="${csrf}">${button('Log out')}</form>
      </div>
    </header>
    <main id="main"${isNarrow && html` class="narrow"`} tabindex="-1">
      ${rank && !hasSecondFactor && html`<p class="notice" data-kind="warning"><span>Production demands two-step login here. <a href="/login/second-factor">Set it up</a></span></p>`}
      ${noticeBox(notice && { ...notice, text: html`<span>${notice.text}</span>` })}
      ${main}
    </main>
    <footer><p class="detail">Times are in UTC. Now: ${shortTime(now, new Date(0))}.</p></footer>`
  const head = html`
    <link rel="stylesheet" href="${folder}console.css">`
  const isError = notice?.kind === 'error'
  return sendPage(reply, withHead(consoleFrame(deps.page), body, { title, isError, head }))
}

/** `label`: what screen readers say in place of the text. */
export function button(text: string, kind = '', label?: string): Html {
  return html`<button${kind && html` class="${kind}"`}${label && html` aria-label="${label}"`}><span class="spinner"></span><span>${text}</span></button>`
}

/** "← Kate". */
export function backTo(path: string, name: string): Html {
  return html`<p class="detail"><a href="${path}"><span aria-hidden="true">←</span> <bdi>${name}</bdi></a></p>`
}

export function emailHtml(email: string): Html {
  return html`<span class="detail" dir="ltr">${breakable(email)}</span>`
}

const ICONS: Record<UserState, Html> = {
  active: html`<path d="m5 12.5 4.5 4.5L19 7.5"/>`,
  waiting: html`<circle cx="12" cy="12" r="9"/><path d="M12 7v5l3.5 2"/>`,
  locked: html`<rect x="5" y="10.5" width="14" height="10" rx="2"/><path d="M8 10.5v-3a4 4 0 0 1 8 0v3"/>`,
  inactive: html`<circle cx="12" cy="12" r="9"/><path d="M8 12h8"/>`,
}

export function stateIcon(state: UserState): Html {
  return html`<svg viewBox="0 0 24 24" aria-hidden="true">${ICONS[state]}</svg>`
}

/** Such as "Waiting until 14:32". */
export function badgeOf(user: { state: UserState; lockedUntil: Date | null }, now: Date): Html {
  const { state, lockedUntil } = user
  const isLocked = lockedUntil && (state === 'waiting' || state === 'locked')
  const until = isLocked ? untilOf(lockedUntil, end => shortTime(end, now)) : ''
  return html`<span class="badge" data-state="${state}">${stateIcon(state)}<span>${capitalized(state)}${until}</span></span>`
}

/** On phones it becomes a list, and keeps its roles; what is in the first columns is clear without their heads. */
export function table(caption: string, head: readonly string[], rows: Value[][]): Html {
  const cellOf = (cell: Value, column: number) =>
    html`<td role="cell"${column > 2 && html` data-label="${head[column]}"`}>${cell}</td>`
  return html`<div class="card table">
        <table role="table">
          <caption class="skip">${caption}</caption>
          <thead role="rowgroup"><tr role="row">${head.map(name => html`<th role="columnheader" scope="col">${name}</th>`)}</tr></thead>
          <tbody role="rowgroup">
            ${rows.map(
              cells => html`<tr role="row">${cells.map(cellOf)}</tr>
            `,
            )}
          </tbody>
        </table>
      </div>`
}

/** Made once: to make one takes 0.1 ms. */
const toFormat = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat('en-GB', { ...options, timeZone: 'UTC' })
const CLOCK = toFormat({ timeStyle: 'short' })
const DAY = toFormat({ day: 'numeric', month: 'short' })
const DATE = toFormat({ day: 'numeric', month: 'short', year: 'numeric' })

const dayOf = (moment: Date) => moment.toISOString().slice(0, 10)

/** "14:32" of today, "28 Jan, 09:14" of this year, "12 Nov 2029, 16:40". */
export function shortTime(moment: Date, now: Date): string {
  const isThisYear = moment.getUTCFullYear() === now.getUTCFullYear()
  const clock = CLOCK.format(moment)
  return dayOf(moment) === dayOf(now)
    ? clock
    : `${(isThisYear ? DAY : DATE).format(moment)}, ${clock}`
}

export function timeHtml(moment: Date, now: Date): Html {
  const today = dayOf(moment) === dayOf(now) && 'Today, '
  return html`<time datetime="${moment.toISOString()}">${today}${shortTime(moment, now)}</time>`
}

export const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
