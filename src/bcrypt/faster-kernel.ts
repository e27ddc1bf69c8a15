// Chooses the kernel that is faster on this processor, by one short measurement at the start.
import { instantiate, KERNEL_NAMES, type KernelName, roundsOf } from './lanes.js'

/** The first pairs also run code that V8 has not optimised yet. Together they take 30 to 60 ms. */
const PAIRS = 75
const ROUNDS = 2
/** Every processor that was tried gains from so many. */
const LANES = 3

/**
 * Both kernels run in turn for less than a millisecond; the one that is faster more often is used. Other load slows down
 * both runs of most pairs, so that it hardly changes the result, even if it lasts.
 */
export function fasterKernel(module: WebAssembly.Module): KernelName {
  const kernel = instantiate(module)
  for (let lane = 0; lane < LANES; lane++) kernel.begin(lane)
  const [locals, constants] = KERNEL_NAMES.map(name => roundsOf(kernel, name, LANES))
  let wins = 0
  for (let pair = 0; pair < PAIRS; pair++) {
    if (timeOf(constants) < timeOf(locals)) wins++
  }
  return wins > PAIRS / 2 ? 'constants' : 'locals'
}

function timeOf(run: ((count: number) => void) | undefined): number {
  const beganMs = performance.now()
  run?.(ROUNDS)
  return performance.now() - beganMs
}
