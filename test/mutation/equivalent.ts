// Mutants that no test can kill, and why: file, changed line, reason.

export const EQUIVALENT: Record<string, Record<string, string>> = {}
