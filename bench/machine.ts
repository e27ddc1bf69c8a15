// Describes the machine on which the figures were measured.
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os'

export type Machine = {
  processor: string
  cores: number
  memoryGiB: number
  node: string
  system: string
  /** The load average before the run. Other programs used the machine if it is above zero. */
  loadBefore: number
  date: string
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
  }
}

export function machineLine(machine: Machine): string {
  const { processor, cores, memoryGiB, node, system, loadBefore, date } = machine
  return `${processor}, ${cores} cores, ${memoryGiB} GiB, ${system}, Node ${node}, ${date}, load before ${loadBefore}`
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
