// Which of the two views is shown: the account to whoever has a live session, the form to everybody else.
import { returnTo, showAccount, startAccount } from './account.js'
import { call } from './api.js'
import { announce, isAnyShown, text } from './dom.js'
import { clearForm, isFormInUse, showForm, startForm } from './form.js'

const PATIENCE_MS = 1_500
const LEAVING_MS = 10_000

startForm(({ user, expiresIn }) => {
  if (returnTo) {
    location.replace(returnTo)
    // Whoever is still here after that has a link to go on with.
    setTimeout(showAccount, LEAVING_MS, user, expiresIn)
    return
  }
  announce(text('loggedIn'))
  showAccount(user, expiresIn)
})
startAccount(showForm)

// A page out of the browser's memory shows what was true when it was left.
addEventListener('pageshow', event => {
  if (event.persisted) location.reload()
})

// Most people have no session: they need not wait for a slow answer to hear so.
const patience = setTimeout(showForm, PATIENCE_MS)
const { data } = await call('GET', '/session')
clearTimeout(patience)
if (!data) {
  if (!isAnyShown()) showForm()
} else if (!isAnyShown() || !isFormInUse()) {
  clearForm()
  await showAccount(data.user, null)
}
