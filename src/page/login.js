// Chooses the view: the account for a user with a live session, otherwise the form. With an address to return to,
// a live session leads there.
import { checkSession, isAccountShown, showAccount, startAccount } from './account.js'
import { call } from './api.js'
import { announce, byId, say, text } from './dom.js'
import { clearForm, isFormInUse, showForm, startForm } from './form.js'
import {
  host,
  isReturnRefused,
  leave,
  returnTo,
  showDestination,
  wasSentBack,
} from './return-to.js'
import { hearOtherWindows, tellOtherWindows } from './windows.js'

/** After this time without an answer the form is shown: most visitors have no session. */
const SESSION_WAIT_MS = 1_500

startForm(data => {
  tellOtherWindows('loggedIn')
  announce(text('loggedIn'))
  if (returnTo) leave(() => showAccount(data))
  else showAccount(data, 'noCookie')
})
startAccount(showForm)
showDestination()
keepAddressInLanguageLinks()

// A page from the browser's back/forward cache shows an outdated state.
addEventListener('pageshow', event => {
  if (event.persisted) location.reload()
})
hearOtherWindows(news => {
  if (isAccountShown()) checkSession(news === 'loggedOut' ? news : 'sessionEnded')
  else resume()
})

const refusal = isReturnRefused ? text('returnRefused') : ''
// The form is hidden only if a session cookie came with the request for the page. From a page of another site
// none comes, so the service is asked in any case.
const isHidden = byId('form', HTMLFormElement).hidden
if (!isHidden) showForm(refusal)
const waiting = isHidden ? setTimeout(showForm, SESSION_WAIT_MS, refusal) : undefined
const isResumed = await resume()
clearTimeout(waiting)
if (!isResumed && byId('form', HTMLFormElement).hidden) showForm(refusal)

/** True if there is a session, and the user has not begun to fill in the form meanwhile. */
async function resume() {
  const { data } = await call('GET', '/session')
  if (!data || isAccountShown() || isFormInUse()) return false
  clearForm()
  if (returnTo && !wasSentBack()) {
    leave(() => showAccount(data))
    return true
  }
  showAccount(data)
  if (returnTo) say(text('sentBack', { host }))
  else say(refusal, 'information')
  return true
}

function keepAddressInLanguageLinks() {
  for (const link of document.querySelectorAll('footer [hreflang]')) {
    const address = new URL(location.href)
    address.searchParams.set('lang', link.getAttribute('hreflang') ?? '')
    link.setAttribute('href', address.search)
  }
}
