// Describes the machine on which the figures were measured.
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os'
import packageJson from '../package.json' with { type: 'json' }

export type Machine = {
  processor: string
  cores: number
  /** This and the load are missing where only a part of the figures was recorded. */
  memoryGiB?: number
  node: string
  system: string
  /** The load average before the run. Other programs used the machine if it is above zero. */
  loadBefore?: number
  date: string
  /** The version of the service. */
  version: string
}

export function describeMachine(): Machine {
  return {
    processor: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    system: `${process.platform} ${process.arch}${isVirtual() ? ', virtual' : ''}`,
    loadBefore: Number((loadavg()[0] ?? 0).toFixed(2)),
    date: new Date().toISOString().slice(0, 10),
    version: packageJson.version,
  }
}

export function machineLine(machine: Machine): string {
  const { processor, cores, memoryGiB, node, system, loadBefore, date, version } = machine
  const memory = memoryGiB === undefined ? '' : ` ${memoryGiB} GiB,`
  const load = loadBefore === undefined ? '' : `, load before ${loadBefore}`
  return `${processor}, ${cores} cores,${memory} ${system}, Node ${node}, version ${version}, ${date}${load}`
}

/** True if the figures are of an earlier minor version than the current one. */
export function isOutdated({ version }: Machine): boolean {
  const minorOf = (text: string) => text.split('.').slice(0, 2).join('.')
  return minorOf(version) !== minorOf(packageJson.version)
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
