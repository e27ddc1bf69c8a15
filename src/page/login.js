// Chooses the view: the account for a user with a live session, otherwise the form. With an address to return to,
// a live session leads there.
import { checkSession, isAccountShown, showAccount, startAccount } from './account.js'
import { call } from './api.js'
import { adviceOn, announce, say, text } from './dom.js'
import { clearForm, isFormInUse, isFormShown, reloadAt, showForm, startForm } from './form.js'
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
import { hearOtherWindows, tellOtherWindows } from './windows.js'

/** After this time without an answer the form is shown: most visitors have no session. */
const SESSION_WAIT_MS = 1_500

startForm(async data => {
  tellOtherWindows('loggedIn')
  announce(text('loggedIn'))
  if (!returnTo) return showAccount(data, 'noCookie')
  // An application would only send a user without a cookie back.
  const { status } = await call('GET', '/session')
  if (status === 401) showForm(text('noCookie'))
  else leave(() => showAccount(data))
})
startAccount(showForm)
showDestination()
startLanguageLinks()

// A page from the browser's back/forward cache shows an outdated state.
addEventListener('pageshow', event => {
  if (event.persisted) location.reload()
})
hearOtherWindows(news => {
  if (isAccountShown()) checkSession(news === 'loggedOut' ? news : 'sessionEnded')
  else if (!isLeaving()) resume()
})

// The form is hidden only if a session cookie came with the request for the page. From a page of another site
// none comes, so the service is asked in any case.
if (isFormShown()) showForm(refusal)
const waiting = isFormShown() ? undefined : setTimeout(showForm, SESSION_WAIT_MS, refusal)
const firstStatus = await resume()
clearTimeout(waiting)
if (!isFormShown() && !isAccountShown() && !isLeaving()) {
  showForm(refusal)
  if (firstStatus !== 401) say(adviceOn(firstStatus))
}

/** Shows the account, or goes on, if there is a session and the form is not in use. Returns the answer's status. */
async function resume() {
  const { status, data } = await call('GET', '/session')
  if (!data?.user || isAccountShown() || isLeaving() || isFormInUse()) return status
  clearForm()
  if (mayGoOn()) leave(() => showAccount(data))
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
      reloadAt(address.search)
    })
  }
}
