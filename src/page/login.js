// Chooses the view: the account for a user with a live session, otherwise the form. With an address to return to,
// a live session leads there.
import { checkSession, closeAccount, isAccountShown, showAccount, startAccount } from './account.js'
import { call } from './api.js'
import { adviceOn, announce, say, text } from './dom.js'
import { clearForm, isFormInUse, isFormShown, showChange, showForm, startForm } from './form.js'
import {
  isLeaving,
  leave,
  mayGoOn,
  refusal,
  returnTo,
  sentBack,
  showDestination,
  wasSentBack,
} from './return-to.js'
import { isSending, reloadAt } from './submit-button.js'
import { hearOtherWindows, tellOtherWindows } from './windows.js'

/** The link of the account and /.well-known/change-password lead there. */
const CHANGE_HASH = '#change-password'
/** After this time without an answer the form is shown: most visitors have no session. */
const SESSION_WAIT_MS = 1_500

/** With `prompt=login`, a session that the browser already has does not count. */
let mustLogIn = new URLSearchParams(location.search).get('prompt') === 'login'

startForm(async (data, isChanged) => {
  mustLogIn = false
  forgetHash()
  tellOtherWindows('loggedIn')
  announce(text(isChanged ? 'passwordChanged' : 'loggedIn'))
  if (!returnTo) {
    showAccount(data, 'noCookie')
    if (isChanged) say(text('passwordChanged'), 'information')
    return
  }
  // An application would only send a user without a cookie back.
  const { status } = await call('GET', '/session')
  if (status === 401) showForm(text('noCookie'))
  else leave(() => showAccount(data))
}, leaveChange)
startAccount(showForm)
showDestination(async () => {
  const { data } = await call('GET', '/session')
  if (data?.user) leave(() => showAccount(data))
  else checkSession()
})
startLanguageLinks()

// A page from the browser's back/forward cache shows an outdated state.
addEventListener('pageshow', event => {
  if (event.persisted) location.reload()
})
hearOtherWindows(news => {
  if (isAccountShown()) checkSession(news === 'loggedOut' ? news : 'sessionEnded')
  else if (!isLeaving()) resume()
})
addEventListener('hashchange', ({ oldURL }) => {
  // The form stays until it is known what happened.
  if (isLeaving() || (isFormShown() && isSending())) return
  if (isChangeAsked()) showChange(isAccountShown() ? closeAccount() : '')
  else if (oldURL.endsWith(CHANGE_HASH)) leaveChange()
})

// The form is hidden only if a session cookie came with the request for the page. From a page of another site
// none comes, so the service is asked in any case.
if (isFormShown()) showStart()
const waiting = isFormShown() ? undefined : setTimeout(showStart, SESSION_WAIT_MS)
const firstStatus = await resume()
clearTimeout(waiting)
if (!isFormShown() && !isAccountShown() && !isLeaving()) {
  showStart()
  if (firstStatus !== 401) say(adviceOn(firstStatus))
}

function isChangeAsked() {
  return location.hash === CHANGE_HASH
}

function forgetHash() {
  if (isChangeAsked()) history.replaceState(null, '', location.pathname + location.search)
}

/** Shows the form to a user that has no session, as far as is known. */
function showStart() {
  if (isChangeAsked()) showChange()
  else showForm(refusal)
}

async function leaveChange() {
  forgetHash()
  clearForm()
  const status = await resume()
  if (isAccountShown() || isLeaving()) return
  showForm()
  if (status !== 401) say(adviceOn(status))
}

/** Goes on from the form if there is a session and the form is not in use. Returns the answer's status. */
async function resume() {
  if (mustLogIn) return 401
  const { status, data } = await call('GET', '/session')
  if (!data?.user || isAccountShown() || isLeaving() || isFormInUse()) return status
  clearForm()
  if (isChangeAsked()) showChange(data.user.email)
  else if (mayGoOn()) leave(() => showAccount(data))
  else {
    showAccount(data)
    say(returnTo && wasSentBack() ? sentBack() : refusal, 'information')
  }
  return status
}

/** They keep the query, and the email in the form unless they open another window. */
function startLanguageLinks() {
  for (const link of document.querySelectorAll('footer [hreflang]')) {
    const address = new URL(location.href)
    address.searchParams.set('lang', link.getAttribute('hreflang') ?? '')
    link.setAttribute('href', address.search)
    link.addEventListener('click', event => {
      const { ctrlKey, metaKey, shiftKey } = /** @type {MouseEvent} */ (event)
      if (ctrlKey || metaKey || shiftKey) return
      event.preventDefault()
      reloadAt(address.search + location.hash)
    })
  }
}
