// The forms that change the second step: setting up, replacing or removing an authenticator app or a passkey, and new
// recovery codes. Each is a login too: it asks for the password, and for a proof of the second step that its user has.
import {
  emailField,
  type FormState,
  focus,
  isError,
  passwordField,
  submitButton,
} from './fields.ts'
import { forPasskeys } from './fragments.ts'
import { type Html, html } from './html.ts'
import { type Frame, noticeBox, toDocument } from './layout.ts'
import { newOtpField, type OtpField, otpField } from './otp-fields.ts'
import { qrCode, toOtpAuthUri } from './qr-code.ts'
import type { TextKey } from './texts.ts'

type Words = [title: TextKey, intro: TextKey | null, id: string, button: TextKey, busy: TextKey]

const PASSKEY: Words = ['addPasskey', 'passkeyIntro', 'add', 'createPasskey', 'addingPasskey']
/** `both`: together with a password in place of a temporary one. `add-totp`: beside passkeys. */
const WORDS = {
  'set-totp': ['setUpTitle', 'setUpIntro', 'turn-on', 'turnOn', 'turningOn'],
  'set-both': ['setUpBothTitle', null, 'turn-on', 'saveBoth', 'turningOn'],
  'add-totp': ['addAppTitle', 'addAppIntro', 'turn-on', 'addApp', 'turningOn'],
  'replace-totp': ['replaceTitle', 'replaceIntro', 'turn-on', 'replaceApp', 'replacing'],
  'first-passkey': PASSKEY,
  'both-passkey': PASSKEY,
  'add-passkey': PASSKEY,
  remove: ['removeTitle', 'removeIntro', 'remove', 'remove', 'removing'],
  'turn-off': ['turnOffTitle', 'turnOffIntro', 'turn-off', 'turnOff', 'turningOff'],
  'new-recovery-codes': [
    'newCodesTitle',
    'newCodesIntro',
    'make-codes',
    'makeCodes',
    'makingCodes',
  ],
} as const satisfies Record<string, Words>

/** Each is a field of the form too, so that it stays after a refusal. */
export type FactorForm = {
  view: keyof typeof WORDS
  /** Of an app that is set up. */
  secret: string
  /** Of the passkey that is added, or of the factor that is removed; empty for an app. */
  name: string
  /** By which an authenticator tells accounts apart. */
  userId: string
  /** The ids of the user's passkeys, with spaces between them: their authenticators make no other. */
  exclude: string
}

export function isFactorView(view: string): view is FactorForm['view'] {
  return Object.hasOwn(WORDS, view)
}

type State = FormState & {
  /** Where the form is sent to. */
  path: string
  /** It is always known: that of a session, or one that was sent with its right password. */
  email: string
  /** Null without a session cookie. */
  csrf: string | null
}

export function factorPage(frame: Frame, form: FactorForm, state: State): string {
  const { text, href } = frame
  const { view, userId } = form
  const [titleKey, intro, id, button, busy] = WORDS[view]
  const name = form.name || text('authenticatorApp')
  const title = text(titleKey, { name })
  const sent = { ...(state.csrf && { csrf: state.csrf }), known: '1', form: view, user: userId }
  const main = html`<form id="form" method="post" action="${href(state.path)}">
        <div class="head">
          <h1 id="title" tabindex="-1"${focus(state, 'title')}>${title}</h1>
          ${intro && html`<p>${text(intro)}</p>`}
        </div>
        ${noticeBox(state.notice)}
        ${hidden(view === 'remove' ? { ...sent, name } : sent)}
        ${fieldsOf(frame, form, state)}
        ${view.endsWith('passkey') && html`<p id="new-passkey-error" class="error" aria-live="polite" data-failed="${text('passkeyNotMade')}" data-exists="${text('passkeyExists')}"></p>`}
        ${submitButton(frame, state, id, button, busy)}
        <a id="cancel" class="button" href="${href('/login')}">${text('cancel')}</a>
        ${(view === 'set-totp' || view === 'set-both') && passkeyInstead(frame, view)}
      </form>`
  return toDocument(frame, { title, main, isError: isError(state) })
}

const hidden = (fields: Record<string, string>) =>
  Object.entries(fields).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )

function fieldsOf(frame: Frame, form: FactorForm, state: State): Html[] {
  const email = emailField(frame, state, { isKnown: true })
  const login = [email, passwordField(frame, state, 'password', 'currentPassword')]
  const newLogin = () => [
    email,
    passwordField(frame, state, 'password', 'temporaryPassword'),
    passwordField(frame, state, 'new-password', 'newPassword'),
  ]
  const app = () => scan(frame, form, state)
  const passkey = () => nameField(frame, form, state)
  const newOtp = (isBesideOther: boolean) => newOtpField(frame, state, isBesideOther)
  const loginAnd = (kind: OtpField) => [...login, otpField(frame, state, kind)]
  switch (form.view) {
    case 'set-totp':
      return steps(frame, ['stepScan', app()], ['stepConfirm', [...login, newOtp(false)]])
    case 'set-both': {
      const code = [newOtp(false)]
      return steps(frame, ['stepPassword', newLogin()], ['stepScan', app()], ['stepCode', code])
    }
    case 'add-totp':
    case 'replace-totp': {
      const confirm = loginAnd(form.view === 'replace-totp' ? 'replaced' : 'required')
      const code = [newOtp(true)]
      return steps(frame, ['stepScanNew', app()], ['stepCode', code], ['stepConfirmNow', confirm])
    }
    case 'first-passkey':
      return steps(frame, ['stepName', passkey()], ['stepConfirm', login])
    case 'both-passkey':
      return steps(frame, ['stepPassword', newLogin()], ['stepName', passkey()])
    case 'add-passkey':
      return steps(frame, ['stepName', passkey()], ['stepConfirmNow', loginAnd('adding')])
    default:
      return loginAnd('required')
  }
}

/** The script asks the browser for the passkey when the form is sent. */
function nameField({ text }: Frame, { name, exclude }: FactorForm, state: State): Html[] {
  const error = state.errors?.name
  return [
    ...hidden({ exclude, 'new-passkey': '' }),
    html`<noscript><p class="notice" data-kind="warning"><span>${text('passkeyScript')}</span></p></noscript>
        <div>
          <label for="name">${text('passkeyName')}</label>
          <input id="name" name="name" value="${name}" autocomplete="off" dir="auto" maxlength="100" enterkeyhint="next" aria-required="true"
            aria-describedby="name-error name-hint" aria-invalid="${String(Boolean(error))}"${focus(state, 'name')}>
          <p id="name-error" class="error" aria-live="polite" data-empty="${text('passkeyNameMissing')}">${error}</p>
          <p id="name-hint" class="hint">${text('passkeyNameHint')}</p>
        </div>
        `,
  ]
}

/** A POST: a user without a session is known by the email in this form only. */
function passkeyInstead(frame: Frame, view: 'set-totp' | 'set-both'): Html {
  const { text, href } = frame
  const form = view === 'set-both' ? 'both-passkey' : 'first-passkey'
  const path = href('/login/second-factor/passkey')
  return html`<p class="foot"${forPasskeys(frame)}><button id="passkey-instead" class="switch" formaction="${path}" formnovalidate name="form" value="${form}">${text('passkeyInstead')}</button></p>`
}

function steps({ text }: Frame, ...all: [title: TextKey, fields: Html[]][]): Html[] {
  return all.map(
    ([title, fields], index) =>
      html`<h2 class="step"><span class="number">${index + 1}</span> <span>${text(title)}</span></h2>
        ${fields}`,
  )
}

/**
 * The secret as a picture, as a link for an app on the same device, which cannot scan it, and in groups for typing. The
 * form has it too, so it stays after a refusal.
 */
function scan({ page, text }: Frame, { view, secret }: FactorForm, { email }: State): Html[] {
  const uri = toOtpAuthUri(page.brandName, email, secret)
  const groups = secret.match(/.{1,4}/g) ?? []
  return [
    html`${view.startsWith('set') && html`<p class="detail">${text('stepScanHint')}</p>`}
        ${hidden({ secret })}
        <a class="button open-app" href="${uri}">${text('openInApp')}</a>
        ${qrCode(uri, text('qrCode'))}
        <p id="key-label" class="caption">${text('key')}</p>
        <div class="key label-row">
          <code id="key" translate="no" dir="ltr" role="group" aria-labelledby="key-label">${groups.map(group => html`<span>${group}</span> `)}</code>
          <button type="button" data-copied="${text('copied')}" hidden>${text('copy')}</button>
          <span class="said" aria-live="polite"></span>
        </div>
        `,
  ]
}
