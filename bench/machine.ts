// Describes the machine on which the figures were measured.
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, machine, totalmem } from 'node:os'
import packageJson from '../package.json' with { type: 'json' }

/** Other programs used the machine if the load before the run is above zero. */
export function describeMachine(): string {
  const system = `${process.platform} ${machine()}${isVirtual() ? ', virtual' : ''}`
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  const load = `load before ${loadavg()[0]?.toFixed(2)}`
  const date = new Date().toISOString().slice(0, 10)
  return [
    ...[cpus()[0]?.model ?? 'unknown processor', `${availableParallelism()} cores`, memory, system],
    ...[`Node ${process.version}`, `version ${packageJson.version}`, date, load],
  ].join(', ')
}

/** A virtual machine may share its cores with others, which makes the figures less reliable. */
function isVirtual(): boolean {
  try {
    const vendor = readFileSync('/sys/class/dmi/id/sys_vendor', 'utf8')
    return /qemu|kvm|amazon|google|microsoft|vmware|xen/i.test(vendor)
  } catch {
    return false
  }
}
