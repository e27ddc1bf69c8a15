#!/usr/bin/env node
// What ./login-service and "npm run admin" run: src/main.ts, with options of Node that keep a short process small.
// Plain JavaScript, as launch.cjs is.
'use strict'
// biome-ignore lint/style/useNodejsImportProtocol: see launch.cjs
const { join } = require('path')

const [, , group, command] = process.argv
const isService = group === 'serve'
/** They handle many users, and may need more memory, which V8 then cleans up in threads of its own. */
const isBulk = group === 'users' && (command === 'import' || command === 'export')

const nodeOptions = ['--max-semi-space-size=4']
if (!isService && !isBulk) nodeOptions.push('--v8-pool-size=0', '--max-old-space-size=64')

const launcher = join(__dirname, '../launch.cjs')
process.argv.splice(1, 1, launcher, ...nodeOptions, 'src/main.ts')
require(launcher)
