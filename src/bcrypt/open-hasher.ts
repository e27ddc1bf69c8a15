// Opens an engine. The lanes are used only where they start, are correct and are not slower than npm bcrypt.
import type { Hasher } from './hasher.ts'
import { openNative } from './native.ts'
import { openLanes } from './pool.ts'

/** Measurements differ by some percent. */
const LOWEST_THROUGHPUT = 0.97
/** The lanes must lose all of these, because other load on the machine may disturb one of them. */
const MEASUREMENTS = 3

/** `onLost` is called when a thread has died and its jobs have been rejected. The next job replaces it. */
export async function openHasher(
  engine: Hasher['name'],
  threads: number,
  onWarning: (text: string) => void,
  onLost: (error: Error) => void,
): Promise<Hasher> {
  if (engine === 'native') return openNative(threads)
  for (let measurement = 1; ; measurement++) {
    const lanes = await openLanes(threads, onLost).catch((error: Error) => error)
    const native = await openNative(threads)
    if (lanes instanceof Error) {
      onWarning(
        `Passwords are verified with npm bcrypt, because the lanes cannot be used: ${lanes.message}.`,
      )
      return native
    }
    const throughput = hashesPerMs(lanes) / hashesPerMs(native)
    if (throughput >= LOWEST_THROUGHPUT) return withSpeedOf(native, lanes)
    await lanes.close()
    if (measurement < MEASUREMENTS) continue
    onWarning(
      `Passwords are verified with npm bcrypt, because the lanes have ${throughput.toFixed(2)} times its throughput here.`,
    )
    return native
  }
}

/** Shows what the lanes gain. */
function withSpeedOf(native: Hasher, lanes: Hasher): Hasher {
  const speed = () => {
    const { kernels, fastestMs } = lanes.speed()
    return { kernels, fastestMs: { ...fastestMs, ...native.speed().fastestMs } }
  }
  return { ...lanes, speed }
}

function hashesPerMs(hasher: Hasher): number {
  const roundMs = hasher.roundMs(0)
  return roundMs.length / (roundMs.at(-1) ?? 0)
}
