// The forms of the login and what they load, for the public app and the console.
import type { FastifyInstance } from 'fastify'
import { pageConfig, type ShowFailure } from '../answer/envelope.ts'
import { refuseForeignForms } from '../request/csrf.ts'
import { assetRoute } from './asset.ts'
import { type FactorDeps, factorFormRoute, factorPageRoute } from './factor-forms.ts'
import {
  showFactorFailure,
  showLoginFailure,
  showPageFailure,
  showPasswordFailure,
} from './form-failures.ts'
import { loginFormRoute, logoutFormRoute, passwordFormRoute } from './forms.ts'
import { passwordPageRoute, toLoginRoute } from './page.ts'

export const form = (show: ShowFailure) => ({ ...pageConfig(show), onRequest: refuseForeignForms })

export function addLoginForms(app: FastifyInstance, pages: FactorDeps): void {
  const { page } = pages
  const showFailure = showPageFailure(page)
  app.post('/login', form(showLoginFailure(pages)), loginFormRoute(pages))
  app.get('/login/password', pageConfig(showFailure), passwordPageRoute(pages))
  app.post('/login/password', form(showPasswordFailure(pages)), passwordFormRoute(pages))
  for (const [url, kind] of [
    ['/login/second-factor', 'set-totp'],
    ['/login/second-factor/recovery-codes', 'new-recovery-codes'],
    ['/login/second-factor/passkey', 'add-passkey'],
    ['/login/second-factor/:factor/remove', 'remove'],
  ] as const) {
    app.get(url, pageConfig(showFailure), factorPageRoute(pages, kind))
    app.post(url, form(showFactorFailure(pages, kind)), factorFormRoute(pages, kind))
  }
  app.post('/login/logout', form(showFailure), logoutFormRoute(pages))
  app.get('/login/logout', pageConfig(showFailure), toLoginRoute(page))
  for (const [url, content] of page.assets)
    app.get(url, pageConfig(showFailure), assetRoute(content))
}
