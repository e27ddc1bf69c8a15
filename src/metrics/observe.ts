// Measures the parts of the service from outside: the use case, the store and the hasher do not know of it.
import type { Hasher } from '../bcrypt/hasher.ts'
import type { LoginAttempt, LoginOutcome } from '../login/login.ts'
import type { Throttle } from '../login/throttle.ts'
import type { LoginLabel, Metrics } from './metrics.ts'

type Login = (attempt: LoginAttempt) => Promise<LoginOutcome>

const LABELS: Record<LoginOutcome['kind'], LoginLabel> = {
  'signed-in': 'succeeded',
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
      if (outcome.kind === 'signed-in') metrics.sessionOpened()
      if (outcome.kind === 'throttled') metrics.blocked(outcome.scope)
      return outcome
    } catch (error) {
      end('error')
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

/** Counts every operation under the name of its method, and reports the errors. */
export function observeStore<T extends object>(
  metrics: Metrics,
  store: T,
  onError: (error: unknown) => void,
): T {
  const observed = new Map<PropertyKey, unknown>()
  return new Proxy(store, {
    get(target, name) {
      if (observed.has(name)) return observed.get(name)
      const method = Reflect.get(target, name)
      if (typeof method !== 'function' || name === 'close') return method
      const observe = async (...values: unknown[]) => {
        const startMs = performance.now()
        let isDone = false
        try {
          const result = await Reflect.apply(method, target, values)
          isDone = true
          return result
        } catch (error) {
          onError(error)
          throw error
        } finally {
          metrics.operationEnded(String(name), isDone, performance.now() - startMs)
        }
      }
      observed.set(name, observe)
      return observe
    },
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
