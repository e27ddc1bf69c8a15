// A React hook for login-client.js. Make the client once, outside of the components:
//
//   const client = new LoginClient('https://login.example.com', { cookie: true })
//   const { user, error, login } = useLogin(client)
import { useCallback, useEffect, useState } from 'react'
import { type LoginClient, LoginError, type User } from './login-client.js'

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
    login: (email: string, password: string) => run(() => client.login(email, password)),
    changePassword: (email: string, current: string, next: string) =>
      run(() => client.changePassword(email, current, next)),
    accessToken: () => run(() => client.accessToken()),
    logout: () => run(() => client.logout()),
  }
}
