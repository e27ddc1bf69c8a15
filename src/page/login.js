// Which of the two views is shown: the account to whoever has a live session, the form to everybody else.
import { returnTo, showAccount, startAccount } from './account.js'
import { call } from './api.js'
import { announce, text } from './dom.js'
import { showForm, startForm } from './form.js'

startForm(({ user, expiresIn }) => {
  if (returnTo) return location.replace(returnTo)
  announce(text('loggedIn'))
  return showAccount(user, expiresIn)
})
startAccount(showForm)

async function start() {
  const { data } = await call('GET', '/session')
  if (data) await showAccount(data.user, null)
  else showForm()
}

// A page out of the browser's memory shows what was true when it was left.
addEventListener('pageshow', event => {
  if (event.persisted) start()
})
await start()
