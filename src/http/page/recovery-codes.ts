// The page with new recovery codes: the answer to the form that made them, since nothing shows them again.
import { breakable } from './fragments.ts'
import { type Html, html } from './html.ts'
import { type Frame, noticeBox, toDocument } from './layout.ts'

/** Paper needs to say whose codes they are, of which service, and since when. */
type Made = { email: string; host: string; at: Date }

/** `said`: what else was done. */
export function recoveryCodesPage(frame: Frame, codes: string[], said: string, made: Made): string {
  const { text, markup, href } = frame
  const { email, host, at } = made
  const title = text('codesTitle')
  const main = html`<div class="head"><h1>${title}</h1></div>
      ${noticeBox({ kind: 'information', text: said })}
      <p>${text('codesIntro')}</p>
      <ol id="codes" class="codes" role="list" translate="no" dir="ltr">${codes.map(codeRow)}</ol>
      <p class="detail made">${markup('codesMade', { email: breakable(email), host, date: frame.toDate(at) })}</p>
      <div class="row">
        <button type="button" data-copied="${text('copied')}" hidden>${text('copy')}</button>
        <button type="button" data-print hidden>${text('print')}</button>
        <span class="said" aria-live="polite"></span>
      </div>
      <p class="notice" data-kind="warning"><span>${text('codesOnce')}</span></p>
      <a id="stored" class="button primary" href="${href('/login')}">${text('codesStored')}</a>`
  return toDocument(frame, { title, main })
}

/** On a narrow screen it breaks in the middle, or else between its groups. */
function codeRow(code: string): Html {
  const groups = code.split(/(?<=-)/).map(group => html`${group}<wbr>`)
  return html`
        <li><code><span>${groups.slice(0, 3)}</span><span>${groups.slice(3)}</span></code></li>`
}
