// The page of a logged-in user: the account, its last login and the user's sessions.
import { ALARMING_GUESSES } from '../../domain/second-factor.ts'
import type { LiveSession, Session } from '../../domain/session.ts'
import { DEFAULT_ROLE } from '../../domain/user.ts'
import { type AccountFactors, secondStepSection } from './account-factors.ts'
import { describeDevice } from './device.ts'
import { breakable, initialsOf, timeOf } from './fragments.ts'
import { type Html, html } from './html.ts'
import { type Frame, type Notice, noticeBox, toDocument } from './layout.ts'
import type { TextKey } from './texts.ts'

/** Fewer may be the user's own typing errors. */
const ALARMING_FAILURES = 3
/** The first page of the list shows this many sessions until the user asks for the others. */
const SHOWN_AT_FIRST = 5

type Account = {
  live: LiveSession
  /** A page of the other sessions; `after` and `next` are where it and the next page begin. */
  others: { sessions: Session[]; after: string | null; next: string | null }
  csrf: string
  notice: Notice | null
  /** Null: two-step login is not offered. */
  secondStep: AccountFactors | null
  /** After a change of the password, no failure before it is worth a warning. */
  isPasswordChanged: boolean
  /** The application to go on to. */
  next: { address: string; host: string; isHome: boolean } | null
}

export function accountPage(frame: Frame, account: Account): string {
  const { text, markup, href } = frame
  const { live, csrf, notice, next, secondStep } = account
  const { user, lastLogin, session: current } = live
  const { sessions: others, after, next: nextAfter } = account.others
  const shown = after === null ? [current, ...others] : others
  const rows = shown.map(session => sessionRow(frame, session, current.id, csrf))
  const open = after === null ? SHOWN_AT_FIRST : rows.length
  const pages =
    (after ?? nextAfter) !== null &&
    html`<p id="pages">
        ${after && html`<a href="${href('/login', { after: null })}">${text('newest')}</a>`}
        ${nextAfter && html`<a href="${href('/login', { after: nextAfter })}">${text('older')}</a>`}
      </p>`
  const since = account.isPasswordChanged ? null : lastLogin
  const [failures, guesses] = [since?.failuresSince ?? 0, since?.guessesSince ?? 0]
  const isPasswordKnown = guesses >= ALARMING_GUESSES
  const change = (key: TextKey) => html`<a href="${href('/login/password')}">${text(key)}</a>`
  const main = html`<div id="account">
        <span id="initials" aria-hidden="true">${initialsOf(user.name)}</span>
        <div class="names">
          <h1 id="name" dir="auto">${user.name}</h1>
          <p class="detail"><span id="user-email">${breakable(user.email)}</span>${user.role !== DEFAULT_ROLE && html` · <span id="role">${user.role}</span>`}</p>
          <p class="detail"><a id="change-password" href="${href('/login/password')}">${text('changePassword')}</a></p>
        </div>
        ${action(frame, '/login/logout', csrf, 'log-out', 'logOut')}
      </div>
      ${noticeBox(notice)}
      ${isPasswordKnown && html`<p id="password-known" class="notice" data-kind="error" tabindex="-1"${!notice && html` autofocus`}><span>${markup('passwordKnown', { count: guesses, change: change('changeNow') })}</span></p>`}
      ${next ? html`<a id="continue" class="button primary" href="${next.address}">${text(next.isHome ? 'goTo' : 'continueTo', { host: next.host })}</a>` : html`<p id="may-close">${text('mayClose')}</p>`}
      ${
        lastLogin &&
        html`<p id="last-login" class="detail">${markup(
          lastLogin.ip ? 'lastLogin' : 'lastLoginTime',
          {
            time: timeOf(frame, lastLogin.at),
            device: describeDevice(lastLogin.userAgent, frame).name,
            ip: lastLogin.ip,
          },
        )}</p>`
      }
      ${failures >= ALARMING_FAILURES && !isPasswordKnown && html`<p id="failures" class="notice" data-kind="warning"><span>${markup('failures', { count: failures, change: change('changePassword') })}</span></p>`}
      ${secondStep && secondStepSection(frame, secondStep)}
      <div class="title-row">
        <h2 id="sessions-title">${text('sessions')}</h2>
        ${others.length > 0 && action(frame, '/login/sessions/others/end', csrf, 'end-others', 'endOthers')}
      </div>
      <ul id="sessions" role="list" aria-labelledby="sessions-title">${rows.slice(0, open)}</ul>
      ${
        rows.length > open
          ? html`<details>
        <summary>${text('showMore', { count: rows.length - open })}</summary>
        <ul role="list" aria-labelledby="sessions-title">${rows.slice(open)}</ul>
        ${pages}
      </details>`
          : pages
      }`
  return toDocument(frame, {
    title: text('accountTitle'),
    main,
    isError: notice?.kind === 'error',
    view: 'account',
  })
}

function sessionRow(frame: Frame, session: Session, currentId: string, csrf: string): Html {
  const { id, userAgent, ip, createdAt, lastUsedAt } = session
  const { text, markup } = frame
  const { icon, name: device } = describeDevice(userAgent, frame)
  const [opened, used] = [timeOf(frame, createdAt), timeOf(frame, lastUsedAt)]
  const isUnused = opened.text === used.text
  const label = text('endNamed', { device, ip, time: frame.toTime(createdAt) })
  return html`<li id="session-${id}" class="session">
          ${icon}
          <div class="names">
          <p><strong dir="auto">${device}</strong> ${id === currentId && html`<span class="badge">${text('thisDevice')}</span>`}</p>
          <p class="detail">${markup(isUnused ? 'sessionUnused' : 'sessionDetail', { ip, opened, used })}</p>
          </div>
          ${id !== currentId && action(frame, `/login/sessions/${id}/end`, csrf, `end-${id}`, 'logOut', label)}
        </li>`
}

/** `label`: what screen readers say in place of the text. */
function action(
  { text, href }: Frame,
  path: string,
  csrf: string,
  id: string,
  key: TextKey,
  label?: string,
): Html {
  return html`<form method="post" action="${href(path)}">
          <input type="hidden" name="csrf" value="${csrf}">
          <button id="${id}"${label !== undefined && html` aria-label="${label}"`}><span class="spinner"></span><span>${text(key)}</span></button>
        </form>`
}
