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
/** As Node itself ends when nothing is left to do that could settle the file's last "await". */
const UNSETTLED = 13
/** Names the process that a Node started here must not outlive. */
const LAUNCHER_PID = 'LAUNCHER_PID'

if (!existsSync(join(__dirname, 'node_modules'))) {
  refuse('The packages are not installed: run "npm ci" first.')
} else if (Number(process.versions.node.split('.')[0]) >= NEEDED_MAJOR) runHere()
else runPinnedNode()

function runHere() {
  stopWithParent(() => process.kill(process.pid, 'SIGTERM'))
  const entry = join(__dirname, process.argv[2])
  process.argv.splice(1, 2, entry)
  // Types are stripped and code is compiled once, not at every start. Where the folder cannot be
  // written, Node goes on without.
  require('node:module').enableCompileCache(join(__dirname, 'node_modules/.cache'))
  process.emitWarning = unlessSettled(process.emitWarning)
  let isSettled = false
  process.once('beforeExit', () => {
    if (!isSettled) process.exitCode = UNSETTLED
  })
  import(require('node:url').pathToFileURL(entry).href).then(() => {
    isSettled = true
  })
}

/** Early releases of Node 24 warn at every start of two features that later ones take as settled. */
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
    refuseOldNode(
      `The packages bring none for ${system}-${process.arch} (only for ${pinned.join(', ')}):`,
    )
  } else if (!existsSync(folder)) {
    refuseOldNode(
      `The package ${name}, which brings one, was left out: run "npm ci" without --omit=optional, or`,
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
  child.once('error', error => refuseOldNode(`${node} cannot be run (${error.code}):`))
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
    if (process.ppid === parent && (!hasShell || isStill(npm, parentOf(parent)))) return
    clearInterval(checking)
    stop()
  }, PARENT_CHECK_MS)
  checking.unref()
}

/** What cannot be read, for want of file descriptors, is no reason to stop. */
function isStill(before, now) {
  return now === undefined || now === before
}

function parentOf(pid) {
  // "pid (name) state parent …", where the name may hold anything.
  return readProcess(pid, 'stat').split(') ').pop().split(' ')[1]
}

/** Empty where it cannot be read, as on macOS. */
function readProcess(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}

function refuseOldNode(reason) {
  const needed = `Node ${NEEDED_MAJOR} or newer`
  refuse(
    `This service needs ${needed}; this is ${process.version} (${process.execPath}).\n` +
      `${reason} install ${needed} (https://nodejs.org).`,
  )
}

function refuse(text) {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}
