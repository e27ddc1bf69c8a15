// Compiled with the clients that generators make of the public document: each knows the codes of an operation.
import { getSession, logIn } from './hey-api'
import type { components, operations } from './openapi-typescript'

type Equal<A, B> = [A, B] extends [B, A] ? true : false

type Failures = operations['logIn']['responses']
type Unauthorized = Failures[401]['content']['application/json']['error']['code']
type Forbidden = Failures[403]['content']['application/json']['error']['code']
export const unauthorized: Equal<Unauthorized, 'INVALID_CREDENTIALS'> = true
export const forbidden: Equal<
  Forbidden,
  'CSRF_FAILED' | 'HTTPS_REQUIRED' | 'PASSWORD_CHANGE_REQUIRED' | 'SECOND_FACTOR_REQUIRED'
> = true

type Tokens = components['schemas']['Tokens']
export const refreshToken: Equal<Tokens['refreshToken'], string> = true
type RenewedTokens = components['schemas']['RenewedTokens']
export const renewedToken: Equal<RenewedTokens['refreshToken'], string | undefined> = true

export async function useClient(email: string, password: string): Promise<string> {
  const { data, error } = await logIn({ body: { email, password } })
  if (error?.error.code === 'PASSWORD_CHANGE_REQUIRED') return 'change'
  // @ts-expect-error: a login has no such failure.
  if (error?.error.code === 'EMAIL_TAKEN') return 'taken'
  const session = await getSession({ auth: data?.data.accessToken })
  return session.data?.data.session.lastLogin?.at ?? 'never'
}
