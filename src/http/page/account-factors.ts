// The part of the account about two-step login.
import type { Factor, ListedFactors } from '../../domain/second-factor.ts'
import { forPasskeys, iconOf, timeOf } from './fragments.ts'
import { type Html, html } from './html.ts'
import type { Frame } from './layout.ts'
import type { TextKey } from './texts.ts'

/** From this many recovery codes on, the user should make new ones. */
const FEW_CODES = 2
const SET_UP = '/login/second-factor'

export type AccountFactors = ListedFactors & {
  /** The user's role needs a factor, so the last one cannot be removed. */
  isDemanded: boolean
}

export function secondStepSection(frame: Frame, step: AccountFactors): Html {
  const { text, markup } = frame
  const { factors, recoveryCodesLeft: left } = step
  if (factors.length === 0) {
    return html`<div class="title-row">
        <h2>${text('twoSteps')}</h2>
        ${link(frame, SET_UP, 'set-up', 'setUp', text('setUpTitle'))}
      </div>
      <p id="two-steps-off" class="detail">${text('twoStepsOff')}</p>`
  }
  const since = new Date(Math.min(...factors.map(({ createdAt }) => createdAt.getTime())))
  const change = html`<a href="${frame.href(`${SET_UP}/recovery-codes`)}">${text('makeNewOnes')}</a>`
  const isFew = left <= FEW_CODES
  const hasApp = factors.some(({ kind }) => kind === 'totp')
  return html`${isFew && html`<p id="few-codes" class="notice" data-kind="warning"><span>${markup('codesFew', { left, change })}</span></p>`}
      <div class="title-row">
        <h2 id="two-steps-title">${text('twoSteps')} <span class="badge">${text('on')}</span></h2>
        <div class="row">
          ${!hasApp && link(frame, SET_UP, 'add-app', 'addApp')}
          <a id="add-passkey" class="button" href="${frame.href(`${SET_UP}/passkey`)}"${forPasskeys(frame)}>${text('addPasskey')}</a>
        </div>
      </div>
      <p id="two-steps-since" class="detail">${markup('turnedOnAt', { time: timeOf(frame, since) })}</p>
      <ul id="factors" role="list" aria-labelledby="two-steps-title">
        ${factors.map(factor => factorRow(frame, factor, factors.length > 1 || !step.isDemanded))}
        <li class="session">
          ${iconOf('list')}
          <div class="names">
            <p><strong>${text('recoveryCodes')}</strong></p>
            <p class="detail"><span${isFew && html` class="few"`}>${text('codesLeft', { left })}</span></p>
          </div>
          ${link(frame, `${SET_UP}/recovery-codes`, 'new-codes', 'newCodes')}
        </li>
      </ul>`
}

function factorRow(frame: Frame, factor: Factor, isRemovable: boolean): Html {
  const { text, markup } = frame
  const { id, kind, createdAt, lastUsedAt } = factor
  const name = factor.name ?? text('authenticatorApp')
  const used = lastUsedAt
    ? markup('factorUsed', { used: timeOf(frame, lastUsedAt) })
    : markup('factorUnused', { added: timeOf(frame, createdAt) })
  return html`<li class="session">
          ${iconOf(kind === 'totp' ? 'phone' : 'key')}
          <div class="names">
            <p><strong dir="auto">${name}</strong></p>
            <p class="detail">${used}</p>
          </div>
          <div class="row">
            ${kind === 'totp' && link(frame, SET_UP, 'replace', 'replace', text('replaceNamed', { name }))}
            ${isRemovable && link(frame, `${SET_UP}/${id}/remove`, `remove-${id}`, 'remove', text('removeNamed', { name }))}
          </div>
        </li>
        `
}

/** `label`: what screen readers say in place of the text. */
function link({ text, href }: Frame, path: string, id: string, key: TextKey, label?: string): Html {
  return html`<a id="${id}" class="button" href="${href(path)}"${label !== undefined && html` aria-label="${label}"`}>${text(key)}</a>`
}
