// Reads single values from the environment, and checks each.
import type { Variable } from './variables.ts'

export type Environment = Record<string, string | undefined>

/** Collects all problems, so that the operator can fix them together. */
export class Reader {
  readonly problems: string[] = []
  readonly #env: Environment

  constructor(env: Environment) {
    this.#env = env
  }

  text(name: Variable): string | null {
    const value = this.#env[name]?.trim()
    return value ? value : null
  }

  integer<Fallback extends number | null>(
    name: Variable,
    fallback: Fallback,
    min: number,
    max: number,
  ): number | Fallback {
    const text = this.text(name)
    if (text === null) return fallback
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    this.problems.push(`${name} must be a whole number from ${min} to ${max}, not "${text}".`)
    return fallback
  }

  oneOf<T extends string>(name: Variable, fallback: T, allowed: readonly T[]): T {
    const text = this.text(name)
    if (text === null) return fallback
    const value = allowed.find(candidate => candidate === text)
    if (value === undefined)
      this.problems.push(`${name} must be one of ${allowed.join(', ')}, not "${text}".`)
    return value ?? fallback
  }

  list(name: Variable): string[] | null {
    const entries = this.text(name)
      ?.split(',')
      .map(entry => entry.trim())
      .filter(Boolean)
    return entries ?? null
  }
}
