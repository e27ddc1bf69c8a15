// `PROOF=full` runs every case of the proofs. Without it, a part of them is chosen so that `npm run test:slow` stays short.

export const IS_FULL = process.env.PROOF === 'full'

/** About a third of the cases, unless all are asked for. */
export function casesOf(all: number): number {
  return IS_FULL ? all : Math.ceil(all / 3)
}
