// One result of the doctor.

export type Finding = { check: string; state: 'ok' | 'warning' | 'problem'; detail: string }

const finding =
  (state: Finding['state']) =>
  (check: string, detail: string): Finding => ({ check, state, detail })

export const ok = finding('ok')
export const warning = finding('warning')
export const problem = finding('problem')
