// What the audit records of the configuration: the variables whose values are not the defaults, without secrets.
import { describeUrl } from './postgres-hosts.ts'

/** The look of the page, and speed. All other variables, also future ones, can make the service less safe. */
const HARMLESS = [
  ...['BRAND_NAME', 'BRAND_LOGO_FILE', 'BRAND_COLOR'],
  ...['HELP_TEXT', 'HELP_URL', 'TERMS_URL', 'PRIVACY_URL', 'HOME_URL'],
  ...['DATABASE_POOL_SIZE', 'PASSWORD_ENGINE', 'LOGIN_TIME_MS', 'DRAIN_DELAY_MS'],
]

/** `given`: the text of each variable that differs from its default. */
export function settingsOf(given: Record<string, string>): Record<string, string> {
  const settings = Object.entries(given)
    .filter(([name]) => !HARMLESS.includes(name))
    .map(([name, text]) => [name, name === 'DATABASE_URL' ? describeUrl(text) : text])
  return Object.fromEntries(settings)
}
