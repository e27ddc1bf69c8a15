// What a check has found. The start refuses to go on with a problem and logs a warning; the doctor prints both.
import type { Config } from '../config/config.ts'
import { findExposure, findForeignGroup } from './files.ts'

/** `detail` is the text, with what to do about it. */
export type Finding = { check: string; state: 'ok' | 'warning' | 'problem'; detail: string }

const finding =
  (state: Finding['state']) =>
  (check: string, detail: string): Finding => ({ check, state, detail })

export const ok = finding('ok')
export const warning = finding('warning')
export const problem = finding('problem')

/** What production refuses, and what is a warning elsewhere. */
export function unsafe({ nodeEnv }: Pick<Config, 'nodeEnv'>) {
  return nodeEnv === 'production' ? problem : warning
}

/** Checks which users can read or change the file of a secret; null if only those that may. */
export async function checkReaders(
  config: Pick<Config, 'nodeEnv'>,
  check: string,
  path: string,
): Promise<Finding | null> {
  const exposure = await findExposure(path)
  if (exposure) return unsafe(config)(check, exposure)
  const foreign = await findForeignGroup(path)
  return foreign ? warning(check, foreign) : null
}
