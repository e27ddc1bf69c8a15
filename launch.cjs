// Runs a TypeScript file of this project: node launch.cjs [NODE-OPTION...] FILE [ARGUMENT...]
// Node 24 and newer runs the file in this process, or in another one if that needs options. An older Node starts
// the pinned Node of node_modules, because npm before 11.6 does not put the pinned Node on the path of its scripts.
// Plain JavaScript that every Node since 12 can parse, so that it can print what is missing.
'use strict'
// biome-ignore-start lint/style/useNodejsImportProtocol: Node before 14.18 does not know "node:".
const { spawn } = require('child_process')
const { existsSync, readFileSync } = require('fs')
const { join } = require('path')
const { pathToFileURL } = require('url')
// biome-ignore-end lint/style/useNodejsImportProtocol: see above
const { optionalDependencies } = require('./package.json')

const NEEDED_MAJOR = 24
const PARENT_CHECK_MS = 250
/** Node's own exit code for a top-level "await" that never settles. */
const UNSETTLED = 13
/** The variable with the process id of the launcher; the Node that it starts ends when the launcher ends. */
const LAUNCHER_PID = 'LAUNCHER_PID'
const isOldNode = Number(process.versions.node.split('.')[0]) < NEEDED_MAJOR
const nodeOptions = process.argv.splice(
  2,
  process.argv.slice(2).findIndex(word => !word.startsWith('-')),
)

// Without a listener, SIGUSR1 opens Node's inspector, through which other users of the machine could run code.
process.on('SIGUSR1', () => {})

if (!existsSync(join(__dirname, 'node_modules'))) {
  refuse('The packages are not installed: run "npm ci" first.')
} else if (isOldNode) runPinnedNode()
else if (nodeOptions.length > 0) supervise(process.execPath)
else runHere()

function runHere() {
  stopWithParent(() => process.kill(process.pid, 'SIGTERM'))
  const entry = join(__dirname, process.argv[2])
  process.argv.splice(1, 2, entry)
  // Types are stripped and code is compiled once, not at every start. If the folder cannot be written to,
  // Node continues without a cache.
  require('node:module').enableCompileCache(join(__dirname, 'node_modules/.cache'))
  require('./src/import-hook.cjs')
  process.emitWarning = withoutFeatureWarnings(process.emitWarning)
  let isSettled = false
  process.once('beforeExit', () => {
    if (!isSettled) process.exitCode = UNSETTLED
  })
  import(pathToFileURL(entry).href).then(() => {
    isSettled = true
  })
}

/** Hides the warnings of early Node 24 releases about two features that are stable in later releases. */
function withoutFeatureWarnings(emitWarning) {
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

/** Starts another Node, forwards signals to it and ends with its exit code. */
function supervise(node) {
  const options = process.execArgv.concat(nodeOptions, '--disable-sigusr1')
  const child = spawn(node, options.concat(process.argv.slice(1)), {
    stdio: 'inherit',
    env: Object.assign({}, process.env, { [LAUNCHER_PID]: String(process.pid) }),
  })
  const forward = signal => {
    // On Windows a signal would kill the child. The console notifies the child by itself.
    if (process.platform !== 'win32') child.kill(signal)
  }
  const signals = ['SIGTERM', 'SIGINT', 'SIGHUP']
  for (const signal of signals) process.on(signal, forward)
  stopWithParent(() => forward('SIGTERM'))
  child.once('error', error => {
    const reason = `${node} cannot be run (${error.code})`
    if (isOldNode) refuseOldNode(`${reason}:`)
    else refuse(`${reason}.`)
  })
  child.once('exit', (code, signal) => {
    if (signal === null) process.exit(code)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}

/** Stops the program when the launcher or npm, whichever started it, has ended, even by SIGKILL. */
function stopWithParent(stop) {
  const { [LAUNCHER_PID]: launcher, npm_lifecycle_script: script = '' } = process.env
  delete process.env[LAUNCHER_PID]
  if (!launcher && !/(launch|command)\.cjs|login-service/.test(script)) return
  const parent = launcher ? Number(launcher) : process.ppid
  const checking = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(checking)
    stop()
  }, PARENT_CHECK_MS)
  checking.unref()
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
