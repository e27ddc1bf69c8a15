// Between the values that both engines can hold and those that the service speaks in.

export function toText(time: Date, plusMs = 0): string {
  return new Date(time.getTime() + plusMs).toISOString()
}

export function toTime(stored: Date | string): Date {
  return new Date(stored)
}

export function toTimeOrNull(stored: Date | string | null): Date | null {
  return stored === null ? null : toTime(stored)
}
