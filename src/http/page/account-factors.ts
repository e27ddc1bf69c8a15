// The part of the account about two-step login.
import type { Factor, ListedFactors } from '../../domain/second-factor.ts'
import { iconOf, timeOf } from './fragments.ts'
import { type Html, html } from './html.ts'
import type { Frame } from './layout.ts'
import type { TextKey } from './texts.ts'

/** From this many recovery codes on, the user should make new ones. */
const FEW_CODES = 2
const NEW_CODES = '/login/second-factor/recovery-codes'

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
        ${link(frame, '/login/second-factor', 'set-up', 'setUp', text('setUpTitle'))}
      </div>
      <p id="two-steps-off" class="detail">${text('twoStepsOff')}</p>`
  }
  const since = new Date(Math.min(...factors.map(({ createdAt }) => createdAt.getTime())))
  const change = html`<a href="${frame.href(NEW_CODES)}">${text('makeNewOnes')}</a>`
  const isFew = left <= FEW_CODES
  return html`${isFew && html`<p id="few-codes" class="notice" data-kind="warning"><span>${markup('codesFew', { left, change })}</span></p>`}
      <div class="title-row">
        <h2 id="two-steps-title">${text('twoSteps')} <span class="badge">${text('on')}</span></h2>
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
          ${link(frame, NEW_CODES, 'new-codes', 'newCodes')}
        </li>
      </ul>`
}

function factorRow(frame: Frame, factor: Factor, isRemovable: boolean): Html {
  const { text, markup } = frame
  const { id, createdAt, lastUsedAt } = factor
  const name = factor.name ?? text('authenticatorApp')
  const used = lastUsedAt
    ? markup('factorUsed', { used: timeOf(frame, lastUsedAt) })
    : markup('factorUnused', { added: timeOf(frame, createdAt) })
  return html`<li class="session">
          ${iconOf('phone')}
          <div class="names">
            <p><strong dir="auto">${name}</strong></p>
            <p class="detail">${used}</p>
          </div>
          <div class="row">
            ${link(frame, '/login/second-factor', 'replace', 'replace', text('replaceNamed', { name }))}
            ${isRemovable && link(frame, `/login/second-factor/${id}/remove`, `remove-${id}`, 'remove', text('removeNamed', { name }))}
          </div>
        </li>
        `
}

/** `label`: what screen readers say in place of the text. */
function link({ text, href }: Frame, path: string, id: string, key: TextKey, label?: string): Html {
  return html`<a id="${id}" class="button" href="${href(path)}"${label !== undefined && html` aria-label="${label}"`}>${text(key)}</a>`
}
