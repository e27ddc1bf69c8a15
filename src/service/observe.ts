// Measures the parts of the service from outside: the use case, the store and the hasher do not know of it.
import type { Hasher } from '../bcrypt/hasher.ts'
import { wrapMethods } from '../domain/operations.ts'
import { DatabaseBusy, type StoreParts } from '../domain/store.ts'
import type { LoginAttempt, LoginOutcome } from '../login/attempt.ts'
import type { Throttle } from '../login/throttle.ts'
import type { LoginLabel, Metrics } from '../metrics/metrics.ts'

type Login = (attempt: LoginAttempt) => Promise<LoginOutcome>

const LABELS: Record<LoginOutcome['kind'], LoginLabel> = {
  'signed-in': 'succeeded',
  'change-required': 'change_required',
  'second-factor-required': 'second_factor_required',
  'unfit-password': 'unfit_password',
  'unfit-factor': 'unfit_factor',
  rejected: 'failed',
  throttled: 'throttled',
  shed: 'shed',
}

export function observeLogin(metrics: Metrics, login: Login): Login {
  return async attempt => {
    const startMs = performance.now()
    const end = (outcome: LoginLabel) =>
      metrics.loginEnded(outcome, (performance.now() - startMs) / 1000)
    try {
      const outcome = await login(attempt)
      end(LABELS[outcome.kind])
      if (outcome.kind === 'signed-in') {
        metrics.sessionOpened()
        if (outcome.isPasswordChanged) metrics.passwordChanged()
      }
      if (outcome.kind === 'throttled') metrics.blocked(outcome.scope)
      return outcome
    } catch (error) {
      end(error instanceof DatabaseBusy ? 'shed' : 'error')
      throw error
    }
  }
}

export function observeThrottle(metrics: Metrics, throttle: Throttle): Throttle {
  return {
    ...throttle,
    async reserve(scopes, email) {
      const reservation = await throttle.reserve(scopes, email)
      if (reservation.kind === 'busy') {
        const busy = scopes.find(({ key }) => key === reservation.key)
        if (busy) metrics.waited(busy.name)
      }
      return reservation
    },
  }
}

/** Counts every operation under its name, and reports the errors. */
export function observeStore(
  metrics: Metrics,
  store: StoreParts,
  onError: (error: unknown) => void,
): StoreParts {
  return wrapMethods(store, (name, operation) => async (...values) => {
    const startMs = performance.now()
    let isDone = false
    try {
      const result = await operation(...values)
      isDone = true
      return result
    } catch (error) {
      onError(error)
      throw error
    } finally {
      metrics.operationEnded(name, isDone, performance.now() - startMs)
    }
  })
}

export function observeHasher(metrics: Metrics, hasher: Hasher): Hasher {
  return {
    ...hasher,
    start(thread, job) {
      const startMs = performance.now()
      const hashing = hasher.start(thread, job)
      hashing.digest.then(
        // A hash that was cancelled says nothing of how long one takes.
        digest => digest && metrics.hashEnded(performance.now() - startMs),
        () => {},
      )
      return hashing
    },
  }
}
