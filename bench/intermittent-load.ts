// A process that keeps one core busy for two seconds, pauses for two seconds, and so on.
import { setTimeout as sleep } from 'node:timers/promises'

const PHASE_MS = 2_000

for (;;) {
  const endMs = performance.now() + PHASE_MS
  while (performance.now() < endMs);
  await sleep(PHASE_MS)
}
