// Chooses the view: the account for a user with a live session, otherwise the form.
import { returnTo, showAccount, startAccount } from './account.js'
import { call } from './api.js'
import { announce, isAnyShown, text } from './dom.js'
import { clearForm, isFormInUse, showForm, startForm } from './form.js'

/** After this time without an answer the form is shown: most visitors have no session. */
const SESSION_WAIT_MS = 1_500
/** If the browser has not left the page after this time, the account is shown with a link. */
const LEAVING_MS = 10_000

startForm(({ user, expiresIn }) => {
  if (returnTo) {
    location.replace(returnTo)
    setTimeout(showAccount, LEAVING_MS, user, expiresIn)
    return
  }
  announce(text('loggedIn'))
  showAccount(user, expiresIn)
})
startAccount(showForm)

// A page from the browser's back/forward cache shows an outdated state.
addEventListener('pageshow', event => {
  if (event.persisted) location.reload()
})

const waiting = setTimeout(showForm, SESSION_WAIT_MS)
const { data } = await call('GET', '/session')
clearTimeout(waiting)
if (!data) {
  if (!isAnyShown()) showForm()
} else if (!isAnyShown() || !isFormInUse()) {
  clearForm()
  await showAccount(data.user, null)
}
