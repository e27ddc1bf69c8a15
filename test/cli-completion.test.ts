// The completion script for bash, in bash. `npm run test:deploy` tests those for zsh and fish.
import { test } from 'node:test'
import { assertCompletes } from './completion.ts'

test('bash completes commands, options, choices and files', t =>
  assertCompletes(t, 'bash', 'bash --rcfile .bashrc -i', '.bashrc'))
