// The document around every page of the console, and the times on it. It is in English, and its times are in UTC.

import type { SessionUser } from '../../domain/session.ts'
import type { UserState } from '../../domain/user.ts'
import { breakable } from '../../http/page/fragments.ts'
import { type Html, html, type Value } from '../../http/page/html.ts'
import { type Frame, type Notice, noticeBox, withHead } from '../../http/page/layout.ts'
import type { Page } from '../../http/page/page.ts'
import { textsFor } from '../../http/page/texts.ts'
import type { For } from '../operation.ts'
import { untilOf } from '../operations/explanation.ts'

/** A user at the console, as it is at this request. */
export type Staff = {
  user: SessionUser
  /** Null: the role has no place here. */
  rank: For | null
  csrf: string
  isRecent: boolean
  /** In development only: production lets such a user set up a factor, and do nothing else. */
  isWithoutFactor: boolean
}

const ICONS: Record<UserState, Html> = {
  active: html`<path d="m5 12.5 4.5 4.5L19 7.5"/>`,
  waiting: html`<circle cx="12" cy="12" r="9"/><path d="M12 7v5l3.5 2"/>`,
  locked: html`<rect x="5" y="10.5" width="14" height="10" rx="2"/><path d="M8 10.5v-3a4 4 0 0 1 8 0v3"/>`,
  inactive: html`<circle cx="12" cy="12" r="9"/><path d="M8 12h8"/>`,
}

/** Its addresses keep their query. */
export function frameOf(page: Page): Frame {
  const href: Frame['href'] = (path, more = {}) => {
    const added = new URLSearchParams(more as Record<string, string>)
    return added.size === 0 ? path : `${path}${path.includes('?') ? '&' : '?'}${added}`
  }
  return { ...textsFor('en', undefined), page, href }
}

type Content = {
  title: string
  main: Html
  notice?: Notice | null | undefined
  isNarrow?: boolean
  now: Date
}

export function consolePage(page: Page, staff: Staff, content: Content): string {
  const { title, main, notice, isNarrow, now } = content
  const { user, rank, csrf, isWithoutFactor } = staff
  const body = html`<a class="skip" href="#main">Skip to the content</a>
    <header class="title-row">
      <div class="label-row">
        <a href="/console/people"><img src="${page.folder}logo" alt="" height="28"><strong dir="auto">${page.brandName}</strong></a>
        ${rank && html`<nav class="label-row detail" aria-label="Console">${link('People')} ${link('History')}</nav>`}
      </div>
      <div class="label-row">
        <p class="detail"><bdi>${user.name}</bdi> <span class="badge" dir="auto">${user.role}</span></p>
        <form method="post" action="/login/logout"><input type="hidden" name="csrf" value="${csrf}">${button('Log out')}</form>
      </div>
    </header>
    <main id="main"${isNarrow && html` class="narrow"`} tabindex="-1">
      ${isWithoutFactor && html`<p class="notice" data-kind="warning"><span>Production demands two-step login here. <a href="/login/second-factor">Set it up</a></span></p>`}
      ${noticeBox(notice && { ...notice, text: html`<span>${notice.text}</span>` })}
      ${main}
    </main>
    <footer><p class="detail">Times are in UTC. Now: ${timeOf(now, now)}.</p></footer>`
  const head = html`
    <link rel="stylesheet" href="${page.folder}console.css">`
  return withHead(frameOf(page), body, { title, isError: notice?.kind === 'error', head })

  function link(name: string): Html {
    const isCurrent = title === name
    return html`<a href="/console/${name.toLowerCase()}"${isCurrent && html` aria-current="page"`}>${name}</a>`
  }
}

/** The script shows that it has been pressed. `label`: what screen readers say in place of the text. */
export function button(text: string, kind = '', label?: string): Html {
  return html`<button${kind && html` class="${kind}"`}${label && html` aria-label="${label}"`}><span class="spinner"></span><span>${text}</span></button>`
}

/** Such as "Waiting until 14:32". */
export function badgeOf({ state, lockedUntil }: Shown, now: Date): Html {
  const isLocked = lockedUntil && (state === 'waiting' || state === 'locked')
  const until = isLocked ? untilOf(lockedUntil, end => timeText(end, now)) : ''
  return html`<span class="badge" data-state="${state}">${iconOf(state)} ${capitalized(state)}${until}</span>`
}
type Shown = { state: UserState; lockedUntil: Date | null }

export const iconOf = (state: UserState): Html =>
  html`<svg viewBox="0 0 24 24" aria-hidden="true">${ICONS[state]}</svg>`

export function emailOf(email: string): Html {
  return html`<span class="detail" dir="ltr">${breakable(email)}</span>`
}

/** `head` names the columns; the first cell of a row is wide. On phones a table becomes a list, and keeps its roles. */
export function table(caption: string, head: string[], rows: Value[][]): Html {
  return html`<div class="card table">
        <table role="table">
          <caption class="skip">${caption}</caption>
          <thead role="rowgroup"><tr role="row">${head.map(name => html`<th role="columnheader" scope="col">${name}</th>`)}</tr></thead>
          <tbody role="rowgroup">
            ${rows.map(
              cells =>
                html`<tr role="row">${cells.map((cell, i) => html`<td role="cell"${i === 0 ? html` class="person"` : html` data-label="${head[i]}"`}>${cell}</td>`)}</tr>
            `,
            )}
          </tbody>
        </table>
      </div>`
}

const CLOCK = formatter({ timeStyle: 'short' })
const DAY = formatter({ day: 'numeric', month: 'short' })
const DATE = formatter({ day: 'numeric', month: 'short', year: 'numeric' })

/** One for all rows: to make one takes 0.1 ms. */
function formatter(options: Intl.DateTimeFormatOptions) {
  return new Intl.DateTimeFormat('en-GB', { ...options, timeZone: 'UTC' })
}

/** "14:32" of today, "28 Jan, 09:14", "12 Nov 2029, 16:40". */
export function timeText(moment: Date, now: Date): string {
  const isThisYear = moment.getUTCFullYear() === now.getUTCFullYear()
  const day = (isThisYear ? DAY : DATE).format(moment)
  const isToday = isThisYear && day === DAY.format(now)
  return isToday ? CLOCK.format(moment) : `${day}, ${CLOCK.format(moment)}`
}

export function timeOf(moment: Date, now: Date): Html {
  const isToday = moment.toISOString().slice(0, 10) === now.toISOString().slice(0, 10)
  return html`<time datetime="${moment.toISOString()}">${isToday && 'Today, '}${timeText(moment, now)}</time>`
}

export const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
