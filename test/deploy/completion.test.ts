// The completion scripts for zsh and fish, in these shells.
import { test } from 'node:test'
import { assertCompletes, assertFishCompletes } from '../completion.ts'

test('zsh completes commands, options, choices and files', t =>
  assertCompletes(t, 'zsh', 'zsh -i', '.zshrc'))

test('fish completes commands, options, choices and files', assertFishCompletes)
