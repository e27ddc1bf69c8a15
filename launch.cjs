// Runs a TypeScript file of this project: node launch.cjs FILE [ARGUMENT...]
// On Node 24 and newer it goes on in this process. An older Node runs the pinned one out of
// node_modules, because npm before 11.6 does not put that one on the path of its scripts.
// Plain JavaScript that any Node since 12 can parse: it must be able to say what is missing.
'use strict'
// biome-ignore-start lint/style/useNodejsImportProtocol: Node before 14.18 does not know "node:".
const { spawn } = require('child_process')
const { existsSync, readFileSync } = require('fs')
const { join } = require('path')
// biome-ignore-end lint/style/useNodejsImportProtocol: see above
const { optionalDependencies } = require('./package.json')

const NEEDED_MAJOR = 24
const PARENT_CHECK_MS = 250
/** Tells a Node that was started here which process must not outlive it. */
const LAUNCHER_PID = 'LAUNCHER_PID'

const isNewEnough = Number(process.versions.node.split('.')[0]) >= NEEDED_MAJOR
if (!existsSync(join(__dirname, 'node_modules'))) {
  refuse('The packages are not installed: run "npm ci" first.')
} else if (isNewEnough) runHere()
else runPinnedNode()

function runHere() {
  stopWithParent(() => process.kill(process.pid, 'SIGTERM'))
  const entry = join(__dirname, process.argv[2])
  process.argv.splice(1, 2, entry)
  // Types are stripped and code is compiled once, not at every start. Where the folder cannot be
  // written, Node goes on without.
  require('node:module').enableCompileCache(join(__dirname, 'node_modules/.cache'))
  process.emitWarning = unlessSettled(process.emitWarning)
  import(require('node:url').pathToFileURL(entry).href)
}

/** Node 24.0 to 24.11 warn at every start of two features that became stable unchanged. */
function unlessSettled(emitWarning) {
  return (warning, ...details) => {
    if (/^(Type Stripping|SQLite) is an experimental feature/.test(warning)) return
    emitWarning.call(process, warning, ...details)
  }
}

function runPinnedNode() {
  const system = process.platform === 'win32' ? 'win' : process.platform
  const name = `node-${system}-${process.arch}`
  const folder = join(__dirname, 'node_modules', name)
  if (!(name in optionalDependencies)) {
    const pinned = Object.keys(optionalDependencies).map(each => each.replace(/^node-/, ''))
    refuse(
      `There is none among the packages for ${system}-${process.arch} (only for ${pinned.join(', ')}).`,
    )
  } else if (!existsSync(folder)) {
    refuse(
      `The package ${name}, which has one, was left out: run "npm ci" without --omit=optional.`,
    )
  } else {
    const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    supervise(join(folder, bin.node))
  }
}

/** Stays between the terminal and the pinned Node: signals go down, the exit code comes up. */
function supervise(node) {
  const child = spawn(node, process.execArgv.concat(process.argv.slice(1)), {
    stdio: 'inherit',
    env: Object.assign({}, process.env, { [LAUNCHER_PID]: String(process.pid) }),
  })
  const forward = signal => {
    // Windows cannot send a signal, only kill; its consoles tell the child by themselves.
    if (process.platform !== 'win32') child.kill(signal)
  }
  // SIGUSR1 as well: without a listener it opens the inspector of this process.
  const signals = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2']
  for (const signal of signals) process.on(signal, forward)
  stopWithParent(() => forward('SIGTERM'))
  child.once('error', error => refuse(`${node} cannot be run (${error.code}).`))
  child.once('exit', (code, signal) => {
    if (signal === null) process.exit(code)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}

/**
 * Nothing that was started here lives on when the launcher or npm has gone, even by SIGKILL. npm runs
 * a script in a shell, which most often stays in between: then npm is the shell's parent.
 */
function stopWithParent(stop) {
  const { [LAUNCHER_PID]: launcher, npm_lifecycle_script: script = '' } = process.env
  delete process.env[LAUNCHER_PID]
  const isScript = script.includes('launch.cjs')
  if (!launcher && !isScript) return
  const parent = launcher ? Number(launcher) : process.ppid
  const hasShell = !launcher && readProcess(parent, 'cmdline').includes(`\0${script}`)
  const npm = hasShell && parentOf(parent)
  const checking = setInterval(() => {
    if (process.ppid === parent && (!hasShell || parentOf(parent) === npm)) return
    clearInterval(checking)
    stop()
  }, PARENT_CHECK_MS)
  checking.unref()
}

function parentOf(pid) {
  // "pid (name) state parent …", where the name may hold anything.
  return readProcess(pid, 'stat').split(') ').pop().split(' ')[1]
}

/** Empty where there is no such file, as on macOS. */
function readProcess(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch (_) {
    return ''
  }
}

function refuse(reason) {
  const needs = isNewEnough
    ? ''
    : `This service needs Node ${NEEDED_MAJOR} or newer; this is ${process.version} (${process.execPath}).\n`
  const remedy = isNewEnough
    ? ''
    : `Or install Node ${NEEDED_MAJOR} or newer from https://nodejs.org.\n`
  process.stderr.write(`${needs}${reason}\n${remedy}`)
  process.exit(1)
}
