// Reads every declared variable from the environment.
import { ENVIRONMENTS, type Environment, type ReadContext } from './kinds.ts'
import { VARIABLES, type Variable } from './variables.ts'

export type VariableValues = { [Name in keyof typeof VARIABLES]: ValueOf<(typeof VARIABLES)[Name]> }
/** Null: not set, and without a default. */
type ValueOf<V> =
  V extends Variable<infer T, infer Default> ? T | (Default extends null ? null : never) : never

/** Collects all problems, so that the operator can fix them together. */
export function readVariables(env: Environment) {
  const problems: string[] = []
  const warnings: string[] = []
  const environment = ENVIRONMENTS.find(name => name === env.NODE_ENV?.trim()) ?? 'development'
  const read = (name: string, variable: Variable<unknown, string | null>) => {
    const context: ReadContext = {
      ...{ name, environment, env },
      refuse: problem => void problems.push(problem),
      warn: warning => warnings.push(warning),
    }
    const { kind, byDefault, isForTestsOnly, inProduction } = variable
    const text = env[name]?.trim()
    if (text && isForTestsOnly && environment !== 'test') {
      problems.push(`${name} is for tests: set NODE_ENV=test too, or remove it.`)
    } else if (text) {
      const value = kind.parse(text, context)
      if (value !== undefined) return value
    } else if (inProduction && environment === 'production') {
      problems.push(`In production set ${name} ${inProduction}.`)
    }
    return byDefault === null ? null : kind.parse(byDefault, context)
  }
  const values = Object.fromEntries(
    Object.entries(VARIABLES).map(([name, variable]) => [name, read(name, variable)]),
  )
  return { values: values as VariableValues, problems, warnings }
}
