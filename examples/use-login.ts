// A React hook for login-client.js. Make the client once, outside of the components:
//
//   const client = new LoginClient('https://login.example.com', { cookie: true })
//   const { user, error, login } = useLogin(client)
//
// No answer tells which users have a second factor: always show a field for the code, or from the first `error` on.
import { useCallback, useEffect, useState } from 'react'
import { type FactorChange, type LoginClient, LoginError, type User } from './login-client.js'

/** `user` is undefined until it is known whether there is a session. `error` is that of the last call. */
type LoginState = { user?: User | null; error?: LoginError }

export function useLogin(client: LoginClient) {
  const [state, setState] = useState<LoginState>({})

  /** Undefined if the call has failed. */
  const run = useCallback(
    async <T>(call: () => Promise<T>): Promise<T | undefined> => {
      try {
        const result = await call()
        setState({ user: client.user })
        return result
      } catch (error) {
        if (!(error instanceof LoginError)) throw error
        // The call may have found out that the session has ended.
        setState({ user: client.user, error })
      }
    },
    [client],
  )
  useEffect(() => void run(() => client.restore()), [client, run])

  return {
    ...state,
    login: (email: string, password: string, otp?: string) =>
      run(() => client.login(email, password, otp)),
    changePassword: (email: string, current: string, next: string, otp?: string) =>
      run(() => client.changePassword(email, current, next, otp)),
    changeSecondFactor: (email: string, password: string, change: FactorChange, otp?: string) =>
      run(() => client.changeSecondFactor(email, password, change, otp)),
    accessToken: () => run(() => client.accessToken()),
    logout: () => run(() => client.logout()),
  }
}
