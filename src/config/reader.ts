// Values out of the environment, each checked as it is read.

export type Environment = Record<string, string | undefined>

/** Collects what is wrong while values are read, so that nobody has to fix one thing at a time. */
export class Reader {
  readonly problems: string[] = []
  readonly #env: Environment

  constructor(env: Environment) {
    this.#env = env
  }

  text(name: string): string | null {
    const value = this.#env[name]?.trim()
    return value ? value : null
  }

  integer(name: string, fallback: number, min: number, max: number): number {
    const text = this.text(name)
    if (text === null) return fallback
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    this.problems.push(`${name} must be a whole number from ${min} to ${max}, not "${text}".`)
    return fallback
  }

  oneOf<T extends string>(name: string, fallback: T, allowed: readonly T[]): T {
    const text = this.text(name)
    if (text === null) return fallback
    const value = allowed.find(candidate => candidate === text)
    if (value === undefined)
      this.problems.push(`${name} must be one of ${allowed.join(', ')}, not "${text}".`)
    return value ?? fallback
  }

  list(name: string): string[] | null {
    const entries = this.text(name)
      ?.split(',')
      .map(entry => entry.trim())
      .filter(Boolean)
    return entries ?? null
  }
}
